"""Statistics and partition values written by deltalake, with every form of predicate."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from core.pruning.files import ALL_MATCH, MAY_MATCH
from tests.property.pruning.disk_tables import ARROW_TYPES, SAMPLED_TYPES, arrow_value, can_write
from tests.property.pruning.predicates import Column
from tests.property.pruning.samples import VALUES, predicates_of
from tests.property.pruning.tables import Table
from tests.unit.pruning.support import columns_of


class File(NamedTuple):
    partition_values: dict[str, str | None]
    stats: str | None
    deletion_vector: None
    values: list[Any]


def files_of(column: Column, folder: Path) -> list[File]:
    """Writes files with one or two of the values each, some with a null, and returns their entries in the log."""
    name = column.type.name
    values = [value for value in VALUES[name] if can_write(column, value)]
    contents = [[one] for one in [*values, None]]
    if column.place == "data":
        pairs = combinations(values, 2)
        contents += [[one, other, None][: 2 + number % 2] for number, (one, other) in enumerate(pairs)]
    files = []
    for version, content in enumerate(contents):
        array = pa.array([arrow_value(name, value) for value in content], ARROW_TYPES[name])
        partition_by = [column.name] if column.place == "partition" else None
        table = pa.table({column.name: array, "other": [1] * len(content)})
        write_deltalake(folder, table, mode="append", partition_by=partition_by)
        lines = (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        (add,) = [action["add"] for line in lines if "add" in (action := json.loads(line))]
        files.append(File(add["partitionValues"], add["stats"], None, content))
    return files


@pytest.mark.parametrize("place", ["data", "partition"])
@pytest.mark.parametrize("column_type", SAMPLED_TYPES, ids=repr)
def test_no_file_with_a_matching_row_is_skipped(column_type, place, tmp_path):
    column = Column(column_type, place)
    files = files_of(column, tmp_path / "table")
    for predicate in predicates_of(column):
        truth_values = Table([column], mapped=False, utc_offset=0).compile(predicate, "sql").evaluate(columns_of(files))
        for file, value in zip(files, truth_values, strict=True):
            truths = {predicate.truth({column: value}, 0, None) for value in file.values}
            assert value & MAY_MATCH or True not in truths, (predicate.sql, file)
            assert not value & ALL_MATCH or truths == {True}, (predicate.sql, file)
