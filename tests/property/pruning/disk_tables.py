"""Tables on disk with the rows of each file, to check that a server lists every file with a matching row.

Some have handwritten logs with statistics of varying quality. Others are written by deltalake, and their rows are read
back from its Parquet files.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from tests.golden.folder import GoldenTable
from tests.property.pruning.column_types import COLUMN_TYPES, ColumnType
from tests.property.pruning.predicates import Column, Drawing, Row
from tests.property.pruning.samples import VALUES
from tests.property.pruning.tables import COLUMNS, HOUR, File, Table
from tests.property.pruning.writers import WRITERS

FILES = 60
SAMPLED_TYPES = [column_type for column_type in COLUMN_TYPES if column_type.name in VALUES]
ARROW_TYPES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "decimal10": pa.decimal128(10, 2),
    "decimal38": pa.decimal128(38, 10),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DiskTable:
    folder: GoldenTable
    columns: Sequence[Column]
    files: dict[str, list[Row]]
    """The rows that are not deleted, by file name."""
    utc_offset: int = 0
    """The UTC offset of the reader."""
    allows_parquet: bool = True
    """Whether the table can be queried in parquet format."""

    @cached_property
    def values(self) -> dict[Column, list[Any]]:
        """Some values of each column, and values close to them."""
        rows = [row for rows in self.files.values() for row in rows]
        return {column: sample_values(column.type, (row[column] for row in rows)) for column in self.columns}


def sample_values(column_type: ColumnType, values: Iterable[Any]) -> list[Any]:
    found = list({repr(value): value for value in values if value is not None}.values())[:8]
    near = [neighbor for value in found[:4] for neighbor in column_type.near(value)]
    return [*found, *near] or VALUES.get(column_type.name, [0])


class SeededDrawing(Drawing):
    """Draws from the values of a table, with the same result for the same seed."""

    def __init__(self, seed: str, values: dict[Column, list[Any]]) -> None:
        super().__init__(None, list(values))  # type: ignore[arg-type]
        self._random = Random(seed)
        self._values = values

    def pick(self, options: Sequence[Any], label: str | None = None) -> Any:
        return self._random.choice(options)

    def value(self, column: Column) -> Any:
        return self.pick(self._values[column])


def handwritten_table(directory: Path, *, allows_parquet: bool) -> DiskTable:
    """All types as data, partition and nested columns; for delta only, with deletion vectors and mapped columns."""
    table = Table(COLUMNS, mapped=not allows_parquet, utc_offset=-8 * HOUR)
    values = {column: sample_values(column.type, VALUES.get(column.type.name, [b"a"])) for column in COLUMNS}
    drawing = SeededDrawing(directory.name, values)
    drawn = iter(lambda: table.file(drawing, WRITERS), None)
    usable = (file for file in drawn if not (allows_parquet and file.deletion_vector))
    files = {f"{number}.parquet": next(usable) for number in range(FILES)}
    features = ["timestampNtz"] if allows_parquet else ["timestampNtz", "columnMapping", "deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    metadata = {
        "id": "6b0d3cf4-4b39-4c0c-9fd0-5f8a6d0b7a11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema_string,
        "partitionColumns": [column.name for column in COLUMNS if column.place == "partition"],
        "configuration": {} if allows_parquet else {"delta.columnMapping.mode": "name"},
    }
    adds = [{"add": _add(name, file)} for name, file in files.items()]
    _commit(directory, {"protocol": protocol}, {"metaData": metadata}, *adds)
    rows = {name: file.rows for name, file in files.items()}
    return DiskTable(GoldenTable(directory.name, directory), COLUMNS, rows, table.utc_offset, allows_parquet)


def _add(name: str, file: File) -> dict[str, Any]:
    add: dict[str, Any] = {"path": name, "partitionValues": file.partition_values, "size": 1, "modificationTime": 1}
    add |= {"dataChange": True} | ({} if file.stats is None else {"stats": file.stats})
    if file.deletion_vector:
        vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 40}
        add["deletionVector"] = vector | {"cardinality": file.deletion_vector.cardinality}
    return add


def _commit(directory: Path, *actions: dict[str, Any]) -> None:
    (directory / "_delta_log").mkdir(parents=True)
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    (directory / "_delta_log" / f"{0:020}.json").write_text(lines)


def deltalake_table(directory: Path) -> DiskTable:
    """Many small files written by deltalake, with all types as columns and as fields of a nullable struct."""
    columns = [Column(column_type, place) for column_type in SAMPLED_TYPES for place in ("data", "nested")]
    writable = {column: [value for value in VALUES[column.type.name] if can_write(column, value)] for column in columns}
    values = {column: sample_values(column.type, writable[column]) for column in columns}
    drawing = SeededDrawing(directory.name, values)

    def drawn(place: str) -> dict[str, Any]:
        return {
            column.name: None if drawing.chance(4) else arrow_value(column.type.name, drawing.value(column))
            for column in columns
            if column.place == place
        }

    rows = [
        drawn("data") | {"bucket": bucket, "box": None if drawing.chance(4) else drawn("nested")}
        for bucket in range(FILES)
        for _ in range(drawing.pick([1, 2, 3]))
    ]
    types = {column: pa.field(column.name, ARROW_TYPES[column.type.name]) for column in columns}
    box = pa.struct([field for column, field in types.items() if column.place == "nested"])
    fields = [field for column, field in types.items() if column.place == "data"]
    schema = pa.schema([*fields, pa.field("box", box), pa.field("bucket", pa.int64())])
    write_deltalake(directory, pa.Table.from_pylist(rows, schema), partition_by=["bucket"])
    return _read_back(directory, columns, lambda column, row: row["box"] if column.place == "nested" else row)


def partitioned_table(directory: Path, column_type: ColumnType) -> DiskTable:
    """One file per value of a type, written by deltalake, with the value in a partition column and a data column."""
    columns = [Column(column_type, "partition"), Column(column_type, "data")]
    values = [value for value in sample_values(column_type, VALUES[column_type.name]) if can_write(columns[0], value)]
    if column_type.name == "string":
        values.append("")
    array = pa.array([arrow_value(column_type.name, value) for value in [*values, None]], ARROW_TYPES[column_type.name])
    names = [column.name for column in columns]
    write_deltalake(directory, pa.table([array, array], names=names), partition_by=names[:1])
    data_column = columns[1].name
    return _read_back(directory, columns, lambda column, row: {column.name: row[data_column]})


def _read_back(
    directory: Path, columns: list[Column], struct_of: Callable[[Column, dict[str, Any]], dict[str, Any] | None]
) -> DiskTable:
    files = {
        file.name: [
            {column: plain_value((struct_of(column, row) or {}).get(column.name)) for column in columns}
            for row in pq.ParquetFile(file).read().to_pylist()
        ]
        for file in directory.rglob("*.parquet")
    }
    return DiskTable(GoldenTable(directory.name, directory), columns, files)


def can_write(column: Column, value: Any) -> bool:
    """Excludes dates before year 1 (Python), and in folder names 300 digits and negative decimals (deltalake)."""
    match column.type.name, column.place:
        case "date", _:
            return -700_000 < value < 2_900_000
        case "double", "partition":
            return len(f"{value:f}") < 60 and len(f"{value:.400f}".rstrip("0")) < 60
        case (("decimal10" | "decimal38"), "partition"):
            return value >= 0
    return True


def arrow_value(type_name: str, value: Any) -> Any:
    match type_name:
        case _ if value is None:
            return None
        case "date":
            return EPOCH.date() + timedelta(days=value)
        case "timestamp":
            return EPOCH + timedelta(microseconds=value)
        case "timestamp_ntz":
            return EPOCH.replace(tzinfo=None) + timedelta(microseconds=value)
    return value


def plain_value(value: Any) -> Any:
    """Converts a value read by pyarrow to the form of `tests.property.pruning.column_types`."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value
