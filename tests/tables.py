"""Writes small Delta tables for tests, most of them with `deltalake`."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake


def people(directory: Path) -> pa.Table:
    """Writes an unpartitioned table with three versions of 3, 5 and 2 rows. Returns the rows of the last."""
    first = pa.table({"id": [1, 2, 3], "name": ["Ada", "Zoë", None]})
    second = pa.table({"id": [4, 5], "name": ["line\u2028separator", "😀"]})
    write_deltalake(directory, first, name="people", description="Who is who")
    write_deltalake(directory, second, mode="append")
    write_deltalake(directory, pa.table({"id": [6, 7], "name": ["x", "y"]}), mode="overwrite")
    return pa.table({"id": [6, 7], "name": ["x", "y"]})


def events(directory: Path, *, days: int = 10, rows: int = 4) -> pa.Table:
    """Writes a table with one file per partition of a date and a string with special characters. Returns its rows."""
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


ODD_STATS = ('{"numRecords":2}', None, "not json", "[]", '{"numRecords":"2"}', '{"numRecords": 1, "x": "é\u2028"}')


def many_files(directory: Path, count: int = 300) -> list[dict[str, object]]:
    """Writes a log without data files, in which many statistics are invalid. Returns its add actions."""
    log = directory / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
    }
    adds: list[dict[str, object]] = []
    for number in range(count):
        stats = ODD_STATS[number % len(ODD_STATS)]
        add = {"path": f"part-{number:05d}.parquet", "partitionValues": {}, "size": number, "modificationTime": 0}
        adds.append({**add, "dataChange": True} | ({"stats": stats} if stats is not None else {}))
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    actions += [{"add": add} for add in adds]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return adds
