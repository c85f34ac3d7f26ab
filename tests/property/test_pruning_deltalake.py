"""Statistics and partition values by a real writer: no file that deltalake wrote is lost, by any form of predicate."""

import json
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from core.pruning.files import EVERY, SOME
from tests.property.pruning.kinds import KINDS
from tests.property.pruning.predicates import Column
from tests.property.pruning.samples import VALUES, predicates_of
from tests.property.pruning.tables import Table
from tests.unit.pruning.support import columns_of

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


class File(NamedTuple):
    partition_values: dict[str, str | None]
    stats: str | None
    deletion_vector: None
    values: list[Any]


def arrow_value(kind: str, value: Any) -> Any:
    match kind:
        case _ if value is None:
            return None
        case "date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "timestamp" | "timestamp_ntz":
            zone = UTC if kind == "timestamp" else None
            return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=value)
    return value


def can_write(column: Column, value: Any) -> bool:
    """Python's dates begin in year 1, and deltalake writes a folder of 300 digits, or -1.-25 for a decimal."""
    match column.kind.name, column.place:
        case "date", _:
            return value > -700_000
        case "double", "partition":
            return value != 1e300
        case "decimal10", "partition":
            return value >= 0
    return True


def files_of(column: Column, folder: Path) -> list[File]:
    """As the log has them: each with one or two of the values, and some with a null."""
    kind = column.kind.name
    values = [value for value in VALUES[kind] if can_write(column, value)]
    contents = [[one] for one in [*values, None]]
    if column.place == "data":
        pairs = combinations(values, 2)
        contents += [[one, other, None][: 2 + number % 2] for number, (one, other) in enumerate(pairs)]
    files = []
    for version, content in enumerate(contents):
        array = pa.array([arrow_value(kind, value) for value in content], ARROW_TYPES[kind])
        partition_by = [column.name] if column.place == "partition" else None
        table = pa.table({column.name: array, "other": [1] * len(content)})
        write_deltalake(folder, table, mode="append", partition_by=partition_by)
        lines = (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        (add,) = [action["add"] for line in lines if "add" in (action := json.loads(line))]
        files.append(File(add["partitionValues"], add["stats"], None, content))
    return files


@pytest.mark.parametrize("place", ["data", "partition"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in VALUES], ids=repr)
def test_no_file_of_deltalake_s_with_a_matching_row_is_left_out(kind, place, tmp_path):
    column = Column(kind, place)
    files = files_of(column, tmp_path / "table")
    for predicate in predicates_of(column):
        verdicts = Table([column], mapped=False, zone=0).compile(predicate, "sql").evaluate(columns_of(files))
        for file, verdict in zip(files, verdicts, strict=True):
            truths = {predicate.truth({column: value}, 0, None) for value in file.values}
            assert verdict & SOME or True not in truths, (predicate.sql, file)
            assert not verdict & EVERY or truths == {True}, (predicate.sql, file)
