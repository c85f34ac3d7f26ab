"""The rows of each file of a golden table, read by pyarrow. deltalake finds the rows that are not deleted."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.expectation import COLUMN_MAPPING, DELTA, PARQUET, client_refusal, missing_files, needs
from tests.golden.folder import GoldenTable
from tests.golden.plain_log import Action, BrokenLogError, State
from tests.golden.rows import expected_rows
from tests.property.pruning.column_types import COLUMN_TYPES, DAY, ColumnType, decimals, single
from tests.property.pruning.disk_tables import DiskTable, plain_value
from tests.property.pruning.predicates import Column, Row

BY_DELTA_TYPE = {column_type.delta_type: column_type for column_type in COLUMN_TYPES}
# More rows take minutes to read and evaluate one by one.
MANY_ROWS = 20_000
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class GoldenColumn(Column):
    path: tuple[str, ...]
    physical_path: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        return ".".join(f"`{name}`" for name in self.path)

    @property
    def json(self) -> dict:
        return {"op": "column", "name": self.name, "valueType": self.type.json_type}


def golden_disk_table(table: GoldenTable) -> DiskTable | None:
    """Returns None if the table is refused, is too large, has missing files, or has no column to compare."""
    try:
        state = table.log.state(table.log.versions[-1])
    except BrokenLogError:
        return None
    if client_refusal(state, DELTA) or missing_files(table.directory, state):
        return None
    columns = list(_columns(state.schema, state))
    rows_in_files = sum(pq.read_metadata(table.directory / unquote(path)).num_rows for path, _ in state.files)
    if not columns or not 0 < rows_in_files < MANY_ROWS:
        return None
    live: set[tuple[Any, ...]] = set()
    if any(vector for _, vector in state.files):
        rows = expected_rows(table.directory, state).to_pylist()
        live = {tuple(repr(plain_value(_at(row, column.path))) for column in columns) for row in rows}
    files: dict[str, list[Row]] = {}
    for (path, vector), add in state.files.items():
        of_file = list(_rows(table.directory / unquote(path), add, columns))
        if vector:
            of_file = [row for row in of_file if tuple(repr(row[column]) for column in columns) in live]
        files.setdefault(Path(unquote(path)).name, []).extend(of_file)
    return DiskTable(table, columns, files, allows_parquet=client_refusal(state, PARQUET) is None)


def _columns(struct: dict[str, Any], state: State, parents: tuple[tuple[str, str], ...] = ()) -> Iterator[GoldenColumn]:
    for field in struct["fields"]:
        physical = field["name"]
        if COLUMN_MAPPING in needs(state):
            physical = field["metadata"]["delta.columnMapping.physicalName"]
        names = (*parents, (field["name"], physical))
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _columns(field["type"], state, names)
        elif column_type := _column_type(field["type"]):
            is_partition = field["name"] in state.metadata["partitionColumns"] and not parents
            logical_path, physical_path = zip(*names, strict=True)
            yield GoldenColumn(column_type, "partition" if is_partition else "data", logical_path, physical_path)


def _column_type(data_type: Any) -> ColumnType | None:
    if not isinstance(data_type, str):
        return None
    found = DECIMAL.fullmatch(data_type)
    return decimals(int(found[1]), int(found[2])) if found else BY_DELTA_TYPE.get(data_type)


def _rows(file: Path, add: Action, columns: list[GoldenColumn]) -> Iterator[Row]:
    rows = pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read()
    names = [name if name in add["partitionValues"] else name.lower() for name in rows.column_names]
    for row in pa.table(rows.columns, names=names).to_pylist():
        yield {
            column: _partition_value(column.type, add["partitionValues"].get(column.physical_path[0]))
            if column.place == "partition"
            else _widened(column.type, _at(row, (column.physical_path[0].lower(), *column.physical_path[1:])))
            for column in columns
        }


def _at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        row = (row or {}).get(name)
    return row


def _widened(column_type: ColumnType, value: Any) -> Any:
    """Converts a value that was written before its column was widened."""
    if column_type.name == "timestamp_ntz" and isinstance(value, date) and not isinstance(value, datetime):
        return plain_value(value) * DAY
    return Decimal(value) if column_type.name.startswith("decimal") and value is not None else plain_value(value)


def _partition_value(column_type: ColumnType, text: str | None) -> Any:
    if not text:
        return None
    match column_type.name:
        case "byte" | "short" | "integer" | "long":
            return int(text)
        case "double" | "float":
            return float(text) if column_type.name == "double" else single(float(text))
        case "boolean":
            return text == "true"
        case "date":
            return plain_value(date.fromisoformat(text))
        case "timestamp" | "timestamp_ntz":
            return plain_value(datetime.fromisoformat(text))
        case "binary":
            return text.encode()
    return Decimal(text) if column_type.name.startswith("decimal") else text
