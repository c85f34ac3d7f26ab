"""Small Delta tables for tests, written by `deltalake` as a provider would."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake


def people(directory: Path) -> pa.Table:
    """Not partitioned, three versions: 3 rows, 5 rows, then 2."""
    first = pa.table({"id": [1, 2, 3], "name": ["Ada", "Zoë", None]})
    second = pa.table({"id": [4, 5], "name": ["line\u2028separator", "😀"]})
    write_deltalake(directory, first, name="people", description="Who is who")
    write_deltalake(directory, second, mode="append")
    write_deltalake(directory, pa.table({"id": [6, 7], "name": ["x", "y"]}), mode="overwrite")
    return pa.table({"id": [6, 7], "name": ["x", "y"]})


def events(directory: Path, *, days: int = 10, rows: int = 4) -> pa.Table:
    """Partitioned by date and by a text with awkward characters, one file each."""
    start = dt.date(2024, 1, 1)
    kinds = ["plain", "a b", "50%", "é/ü", "x=y"]
    table = pa.table(
        {
            "day": [start + dt.timedelta(days=day) for day in range(days) for _ in range(rows)],
            "kind": [kinds[day % len(kinds)] for day in range(days) for _ in range(rows)],
            "value": list(range(days * rows)),
        }
    )
    write_deltalake(directory, table, partition_by=["day", "kind"])
    return table
