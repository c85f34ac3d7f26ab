"""Reads the expected rows of a table and compares them with those of a client.

The expectation comes from `deltalake`, whose `scan` handles deletion vectors and column mapping. If `deltalake` cannot
read a table, pyarrow reads it file by file. Rows are compared as a multiset of Python values. A pandas frame does
not distinguish null from NaN, nor a UTC time from one without time zone, so the comparison ignores both.
"""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from tests.golden.expectation import COLUMN_MAPPING, DELETION_VECTORS, needs
from tests.golden.plain_log import Action, State
from tests.golden.ranges import RangeAction

Row = tuple[Any, ...]
MANY_ROWS = 10_000
CHANGES = {"add": "insert", "remove": "delete"}
VERSION = pa.field("_commit_version", pa.int64())


def expected_rows(table: Path, state: State) -> pa.Table:
    try:
        return pa.table(DeltaTable(table, version=state.version).scan())
    except (DeltaError, pa.ArrowException):
        if needs(state) & {COLUMN_MAPPING, DELETION_VECTORS}:
            raise
        return _rows_by_file(table, state)


def difference(frame: pd.DataFrame, expected: pa.Table) -> str | None:
    """Returns how the frame of a client differs from the table, if it does."""
    # The client takes column names from the data file, where their case may differ from the schema.
    names, read_names = expected.column_names, list(frame.columns)
    if [name.lower() for name in read_names] != [name.lower() for name in names]:
        return f"columns {read_names} instead of {names}"
    if len(frame) > MANY_ROWS and _same_when_sorted(frame, expected):  # ten times as fast
        return None
    read = Counter(zip(*(_plain_column(frame.iloc[:, index]) for index in range(len(names))), strict=True))
    columns = (_expected_column(expected[index], frame.iloc[:, index]) for index in range(len(names)))
    wanted = Counter(zip(*columns, strict=True))
    if read == wanted:
        return None
    return f"rows {_some(read - wanted)} instead of {_some(wanted - read)}"


def _same_when_sorted(frame: pd.DataFrame, expected: pa.Table) -> bool:
    order = [(name, "ascending") for name in expected.column_names]
    try:
        columns = [
            pa.Array.from_pandas(frame.iloc[:, index], type=field.type) for index, field in enumerate(expected.schema)
        ]
        return pa.table(columns, schema=expected.schema).sort_by(order).equals(expected.sort_by(order))
    except pa.ArrowException:
        return False


def _some(rows: "Counter[Row]") -> str:
    return f"{list(rows)[:2]} ({rows.total()} in all)"


def _expected_column(column: pa.ChunkedArray, read: "pd.Series[Any]") -> Iterable[Any]:
    if pa.types.is_integer(column.type) and read.dtype.kind == "f":
        # pandas converts integers to floats if the column has a null.
        column = pc.cast(column, pa.float64(), safe=False)
    return map(_plain, column.to_pylist())


def _plain_column(column: "pd.Series[Any]") -> Iterable[Any]:
    return map(_plain, column.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        if value is pd.NaT:
            return None
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, np.ndarray):
        return tuple(_plain_column(pd.Series(value)))
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple((name, _plain(inner)) for name, inner in sorted(value.items()))
    return value


def changed_rows(table: Path, latest: State, actions: list[RangeAction]) -> pa.Table:
    """Returns the rows of a change feed, read file by file: `deltalake` miscounts and misses some partitions."""
    schema = _schema(latest).append(pa.field("_change_type", pa.string())).append(VERSION)
    parts = []
    for version, kind, file in actions:
        constants = {VERSION.name: str(version)} | ({} if kind == "cdc" else {"_change_type": CHANGES[kind]})
        parts.append(_file_rows(table, file, schema, constants))
    return pa.concat_tables([schema.empty_table(), *parts])


def _rows_by_file(table: Path, state: State) -> pa.Table:
    schema = _schema(state)
    parts = [_file_rows(table, added, schema, {}) for added in state.files.values()]
    return pa.concat_tables([schema.empty_table(), *parts])


def _schema(state: State) -> pa.Schema:
    return pa.schema(Schema.from_json(state.metadata["schemaString"]).to_arrow())


def _file_rows(table: Path, file: Action, schema: pa.Schema, constants: dict[str, str]) -> pa.Table:
    """Returns the rows of a file that has no deletion vector and no column mapping."""
    rows = pq.ParquetFile(table / unquote(file["path"])).read()
    texts = file.get("partitionValues", {}) | constants

    def column(field: pa.Field) -> pa.Array:
        if field.name in texts:
            return pa.repeat(_value(texts[field.name], field.type), len(rows))
        if field.name not in rows.column_names:
            return pa.nulls(len(rows), field.type)
        return rows[field.name].cast(field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def _value(text: str | None, data_type: pa.DataType) -> pa.Scalar:
    """Parses a partition value. An empty string is null."""
    if not text:
        return pa.scalar(None, data_type)
    if pa.types.is_timestamp(data_type):
        return pa.scalar(pd.Timestamp(text), data_type)
    return pa.scalar(text).cast(data_type)
