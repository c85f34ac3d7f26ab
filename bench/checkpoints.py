"""Compares two readers of checkpoints: arro3-io and the query engine of `deltalake` (docs/decisions/0009).

Both read a checkpoint of a million files from local disk, with and without parsed statistics, and write JSON lines of
(a) all files, (b) the files of one partition, (c) path and size of all files. arro3-io decodes every column that the
footer names, so it runs with the original and with a narrowed footer. `python -m bench.checkpoints` takes 3 minutes.
"""

import shutil
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lab.fresh import Clock, Figures, fresh
from bench.report import Result, write

if TYPE_CHECKING:
    from arro3.core import RecordBatch

FILES = 1_000_000
ROUNDS = 3
BATCH_ROWS = 8192
DAY = "2024-05-03"
ALL = ("path", "partitionValues", "size", "modificationTime", "stats")
KEYS = ("path", "size")
CASES = {
    "all files, arro3-io": "all_by_arro3",
    "all files, arro3-io, narrowed": "all_by_arro3_narrowed",
    "all files, query engine": "all_by_engine",
    "one partition, arro3-io": "partition_by_arro3",
    "one partition, arro3-io, narrowed": "partition_by_arro3_narrowed",
    "one partition, query engine": "partition_by_engine",
    "paths and sizes, arro3-io": "keys_by_arro3",
    "paths and sizes, arro3-io, narrowed": "keys_by_arro3_narrowed",
    "paths and sizes, query engine": "keys_by_engine",
}
FIGURES = {"seconds": ("s", 2), "cpu_seconds": ("s of CPU", 2), "peak_mb": ("MB", 0)}


def all_by_arro3(checkpoint: str) -> Figures:
    return _written(_adds(checkpoint, ALL))


def all_by_arro3_narrowed(checkpoint: str) -> Figures:
    return _written(_adds(checkpoint, ALL, narrowed=True))


def all_by_engine(checkpoint: str) -> Figures:
    return _written(_selected(checkpoint, ALL, "add IS NOT NULL"))


def partition_by_arro3(checkpoint: str) -> Figures:
    return _written(_of_one_day(_adds(checkpoint, ALL)))


def partition_by_arro3_narrowed(checkpoint: str) -> Figures:
    return _written(_of_one_day(_adds(checkpoint, ALL, narrowed=True)))


def partition_by_engine(checkpoint: str) -> Figures:
    return _written(_selected(checkpoint, ALL, f"add['partitionValues']['pickup_date'] = '{DAY}'"))


def keys_by_arro3(checkpoint: str) -> Figures:
    return _written(_adds(checkpoint, KEYS))


def keys_by_arro3_narrowed(checkpoint: str) -> Figures:
    return _written(_adds(checkpoint, KEYS, narrowed=True))


def keys_by_engine(checkpoint: str) -> Figures:
    return _written(_selected(checkpoint, KEYS, "add IS NOT NULL"))


def _adds(checkpoint: str, fields: Sequence[str], *, narrowed: bool = False) -> Iterator["RecordBatch"]:
    from arro3.core import RecordBatch, struct_field
    from arro3.io import read_parquet

    if narrowed:
        _narrow(Path(checkpoint), fields)
    for batch in read_parquet(checkpoint, batch_size=BATCH_ROWS):
        adds = batch["add"]
        names = [field.name for field in adds.type.fields]
        yield RecordBatch.from_arrays([struct_field(adds, [names.index(name)]) for name in fields], names=fields)


def _narrow(checkpoint: Path, fields: Sequence[str]) -> None:
    from core.delta.log.footer import narrowed_footer

    with checkpoint.open("rb") as file:
        footer = narrowed_footer(file, lambda path: path[0] == "add" and path[1] in fields)
    with checkpoint.open("ab") as file:
        file.write(footer)


def _of_one_day(batches: Iterable["RecordBatch"]) -> Iterator["RecordBatch"]:
    """Compare partition values as JSON bytes. Converting them to Python objects takes ten times as long."""
    from arro3.core import Array, DataType
    from arro3.io import write_ndjson

    wanted = b'{"partitionValues":{"pickup_date":"%s"}}' % DAY.encode()
    for batch in batches:
        lines = BytesIO()
        write_ndjson(batch.select(["partitionValues"]), lines)
        rows = [row for row, line in enumerate(lines.getvalue().split(b"\n")) if line == wanted]
        yield batch.take(Array(rows, DataType.uint32()))


def _selected(checkpoint: str, fields: Sequence[str], condition: str) -> Iterator["RecordBatch"]:
    from deltalake import QueryBuilder

    engine = QueryBuilder()
    engine.execute(f"CREATE EXTERNAL TABLE checkpoint STORED AS PARQUET LOCATION '{checkpoint}'")
    columns = ", ".join(f"add['{name}'] AS \"{name}\"" for name in fields)
    yield from engine.execute(f"SELECT {columns} FROM checkpoint WHERE {condition}")


def _written(batches: Iterable["RecordBatch"]) -> Figures:
    from arro3.io import write_ndjson

    clock = Clock()
    for batch in batches:
        write_ndjson(batch, BytesIO())
    return clock.figures()


def measured(checkpoint: Path, case: str) -> Figures:
    """Run a case on a copy, because narrowing appends a footer to the file."""
    with tempfile.TemporaryDirectory() as scratch:
        return fresh(f"bench.checkpoints:{case}", shutil.copy(checkpoint, scratch))


def main() -> None:
    # Imported here because it loads pyarrow, which a case must not hold in memory.
    from bench.tables import CHECKPOINT_VERSION, Shape, write_table

    results = []
    for parsed in (False, True):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "table"
            write_table(folder, FILES, Shape(parsed_stats=parsed))
            checkpoint = folder / "_delta_log" / f"{CHECKPOINT_VERSION:020}.checkpoint.parquet"
            for name, case in CASES.items():
                rounds = [measured(checkpoint, case) for _ in range(ROUNDS)]
                for figure, (unit, digits) in FIGURES.items():
                    value = statistics.median(figures[figure] for figures in rounds)
                    label = name + (", with stats_parsed" if parsed else "")
                    results.append(Result(label, round(value, digits), unit))
    write("checkpoints", results)


if __name__ == "__main__":
    main()
