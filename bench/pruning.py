"""Measures files pruned per second: by column for many files at once, compared with one file at a time.

The columns are in memory, as in an index. A third case starts from the form of the log, where statistics are JSON text.
The cases alternate, so that noise affects all alike. Rates are medians over the rounds; the ratio is the median of the
ratios per round.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress
from typing import Any, NamedTuple

from bench.report import Result, write
from core.pruning.columns import FileColumns
from core.pruning.predicate import compile_predicate

FILES = 100_000
ONE_BY_ONE = 5_000
ROUNDS = 7
TARGET_RATE = 2_000_000
TARGET_RATIO = 10

TYPES = {
    "day": "date",
    "id": "long",
    "city": "string",
    "fare": "double",
    "tip": "decimal(10,2)",
    "picked_up": "timestamp",
    "passengers": "integer",
    "paid": "boolean",
}
SCHEMA = json.dumps({"fields": [{"name": name, "type": data_type} for name, data_type in TYPES.items()]})
HINTS = {
    1: "id > 60000000",
    3: "day >= DATE '2024-03-01' AND id <= 90000000 AND city = 'city 017'",
    10: """day BETWEEN '2024-02-01' AND '2024-11-30' AND id > 1000000 AND NOT id >= 99000000 AND city >= 'city 010'
        AND (fare < 20.5 OR tip = 1.50) AND picked_up > '2024-02-15T12:00:00Z' AND passengers <> 3 AND NOT paid""",
}


class File(NamedTuple):
    partition_values: Mapping[str, str]
    stats: str
    deletion_vector: None = None


class HeldColumns:
    """Columns in memory, extracted from the log beforehand."""

    def __init__(
        self, size: int, columns: Mapping[tuple[str, ...], Sequence[Any]], chosen: bytes | None = None
    ) -> None:
        self._size, self._columns, self._chosen = size, columns, chosen

    def __len__(self) -> int:
        return self._size

    def select(self, chosen: bytes) -> "HeldColumns":
        return HeldColumns(chosen.count(1), self._columns, chosen)

    def _column(self, *name: str) -> Sequence[Any]:
        column = self._columns[name]
        return list(compress(column, self._chosen)) if self._chosen else column

    def partition(self, name: str) -> Sequence[str | None]:
        return self._column("partition", name)

    def minimum(self, path: tuple[str, ...]) -> Sequence[Any]:
        return self._column("minimum", *path)

    def maximum(self, path: tuple[str, ...]) -> Sequence[Any]:
        return self._column("maximum", *path)

    def null_count(self, path: tuple[str, ...]) -> Sequence[Any]:
        return self._column("null_count", *path)

    def num_records(self) -> Sequence[Any]:
        return self._column("num_records")


def make_file(number: int) -> File:
    picked_up = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=5 * number)
    minimum = {
        "id": number * 1000,
        "city": f"city {number % 300:03}",
        "fare": number % 40 + 2.5,
        "tip": round(number % 7 * 0.75, 2),
        "picked_up": f"{picked_up:%Y-%m-%dT%H:%M:%S}.000Z",
        "passengers": number % 5,
        "paid": False,
    }
    maximum = minimum | {
        "id": minimum["id"] + 999,
        "city": f"city {number % 300 + 3:03}",
        "fare": minimum["fare"] + 60,
        "tip": minimum["tip"] + 5,
        "picked_up": f"{picked_up + timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}.000Z",
        "passengers": minimum["passengers"] + number % 2,
        "paid": number % 3 > 0,
    }
    nulls = {name: number % 10 if name == "tip" else 0 for name in minimum}
    stats = {"numRecords": 1000, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}
    return File({"day": f"{picked_up:%Y-%m-%d}"}, json.dumps(stats))


def columns_of(files: Sequence[File]) -> FileColumns:
    return FileColumns([file.partition_values for file in files], [file.stats for file in files])


def hold(files: Sequence[File]) -> HeldColumns:
    columns = columns_of(files)
    held: dict[tuple[str, ...], Sequence[Any]] = {
        ("partition", "day"): columns.partition("day"),
        ("num_records",): columns.num_records(),
    }
    for name in TYPES:
        held["minimum", name] = columns.minimum((name,))
        held["maximum", name] = columns.maximum((name,))
        held["null_count", name] = columns.null_count((name,))
    return HeldColumns(len(files), held)


def files_per_second(prune: Callable[[], object], files: int) -> float:
    started = time.process_time()
    prune()
    return files / (time.process_time() - started)


def measure(comparisons: int, files: Sequence[File], held: HeldColumns) -> list[Result]:
    predicate = compile_predicate([HINTS[comparisons]], None, schema_string=SCHEMA, partition_columns=["day"])
    assert predicate is not None
    assert all(note.used_by for note in predicate.notes)
    singles = [hold([file]) for file in files[:: FILES // ONE_BY_ONE]]
    rounds = [
        (
            files_per_second(lambda: predicate.evaluate(held), FILES),
            files_per_second(lambda: [predicate.evaluate(single) for single in singles], ONE_BY_ONE),
            files_per_second(lambda: predicate.evaluate(columns_of(files)), FILES),
        )
        for _ in range(ROUNDS)
    ]
    by_column, one_by_one, from_the_log = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    ratio = statistics.median(at_once / single for at_once, single, _ in rounds)
    rate, label = by_column * comparisons, f"{comparisons} comparison{'s' if comparisons > 1 else ''}"
    return [
        Result(f"{label}, by column", round(by_column), "files/s"),
        Result(f"{label}, by column", round(rate), "file·comparisons/s", TARGET_RATE, rate >= TARGET_RATE),
        Result(f"{label}, one by one", round(one_by_one), "files/s"),
        Result(f"{label}, by column / one by one", round(ratio, 1), "x", TARGET_RATIO, ratio >= TARGET_RATIO),
        Result(f"{label}, by column, statistics parsed", round(from_the_log), "files/s"),
    ]


def main() -> None:
    files = [make_file(number) for number in range(FILES)]
    held = hold(files)
    write("pruning", [result for comparisons in HINTS for result in measure(comparisons, files, held)])


if __name__ == "__main__":
    main()
