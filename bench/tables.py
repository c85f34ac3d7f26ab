"""Writes Delta logs of any size for the benchmarks: a checkpoint and ten commits after it, without data files.

Files are written in batches, so a log of a million files takes no more memory than one of fifty thousand. Every run
writes the same files, because a file depends on its number alone. Each commit removes as many files as it adds.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

CHECKPOINT_VERSION = 100
COMMITS = 10
FILES_PER_COMMIT = 10
DAYS = [str(date(2024, 1, 1) + timedelta(days)) for days in range(365)]
ROW_GROUP = 50_000
ROWS_PER_FILE = 250_000

COLUMNS = {
    "trip_id": ("long", pa.int64()),
    "vendor": ("string", pa.string()),
    "pickup_at": ("timestamp", pa.timestamp("us", "UTC")),
    "dropoff_at": ("timestamp", pa.timestamp("us", "UTC")),
    "passengers": ("integer", pa.int32()),
    "distance": ("double", pa.float64()),
    "fare": ("double", pa.float64()),
    "tip": ("double", pa.float64()),
    "zone": ("string", pa.string()),
}
TABLE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": data_type, "nullable": True, "metadata": {}}
        for name, data_type in [("pickup_date", "date"), *((name, types[0]) for name, types in COLUMNS.items())]
    ],
}
METADATA = {
    "id": "9f2c1f0e-5d0a-4a53-9a51-3c2f7f6f2b11",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(TABLE_SCHEMA, separators=(",", ":")),
    "partitionColumns": ["pickup_date"],
    "configuration": {},
    "createdTime": 1_700_000_000_000,
}

STRINGS = pa.map_(pa.string(), pa.string())
PROTOCOL_TYPE = pa.struct(
    {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": pa.list_(pa.string()),
        "writerFeatures": pa.list_(pa.string()),
    }
)
METADATA_TYPE = pa.struct(
    {
        "id": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": STRINGS}),
        "schemaString": pa.string(),
        "partitionColumns": pa.list_(pa.string()),
        "configuration": STRINGS,
        "createdTime": pa.int64(),
    }
)
REMOVE_TYPE = pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()})
SIDECAR_TYPE = pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()})
VALUES_TYPE = pa.struct({name: arrow_type for name, (_, arrow_type) in COLUMNS.items()})
NO_NULLS = json.dumps(dict.fromkeys(COLUMNS, 0), separators=(",", ":"))
STATS_SCHEMA = pa.schema(
    {
        "numRecords": pa.int64(),
        "minValues": VALUES_TYPE,
        "maxValues": VALUES_TYPE,
        "nullCount": pa.struct(dict.fromkeys(COLUMNS, pa.int64())),
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout of a checkpoint: one file, several `parts`, or (V2) `sidecars`; with or without parsed stats.

    By default, files are assigned to the days of one year in turn. With `files_per_day`, each day has that many files,
    there are as many days as needed, and the checkpoint lists its files in shuffled order.
    """

    parts: int = 1
    sidecars: int = 0
    parsed_stats: bool = False
    files_per_day: int = 0
    row_group: int = ROW_GROUP


CLASSIC = Shape()


@dataclass(frozen=True, slots=True)
class File:
    path: str
    day: str
    size: int
    stats: str


def file(number: int, shape: Shape = CLASSIC) -> File:
    digest = blake2b(number.to_bytes(8, "big"), digest_size=32)
    noise, name = digest.digest(), digest.hexdigest()[:32]
    day = day_of(number // shape.files_per_day) if shape.files_per_day else DAYS[number % len(DAYS)]
    return File(
        path=f"pickup_date={day}/part-{number % 200:05}-{name}.c000.snappy.parquet",
        day=day,
        size=90_000_000 + noise[0] * 1000,
        stats=f'{{"numRecords":{ROWS_PER_FILE},"minValues":{_values(number * ROWS_PER_FILE, day, 0, noise[:16])},'
        f'"maxValues":{_values((number + 1) * ROWS_PER_FILE - 1, day, 23, noise[16:])},"nullCount":{NO_NULLS}}}',
    )


def day_of(number: int) -> str:
    return str(date(2000, 1, 1) + timedelta(number))


def _values(trip_id: int, day: str, hour: int, noise: bytes) -> str:
    """Return the min or max values of a file as JSON. A larger `hour` makes all values larger."""
    minute, second = divmod(noise[0] * 14, 60)
    moment = f"{day}T{hour:02}:{minute:02}:{second:02}.{int.from_bytes(noise[1:3], 'big'):06}Z"
    distance, fare = (hour * 10 + int.from_bytes(noise[at : at + 3], "big") / 1e5 for at in (6, 9))
    return (
        f'{{"trip_id":{trip_id},"vendor":"{hour:02} Vendor {noise[3]}","pickup_at":"{moment}","dropoff_at":"{moment}",'
        f'"passengers":{hour + noise[4] % 8},"distance":{distance:.5f},"fare":{fare:.5f},"tip":{hour + noise[5] / 100},'
        f'"zone":"{hour:02} Alphabet City, corner {noise.hex()[:8]}"}}'
    )


def write_table(folder: Path, files: int, shape: Shape = CLASSIC) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    stem = f"{CHECKPOINT_VERSION:020}.checkpoint"
    if shape.sidecars:
        sidecars = [_write_sidecar(log, rows, shape) for rows in _split(files, shape.sidecars)]
        _write_checkpoint(log / f"{stem}.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", range(0), shape, sidecars)
    else:
        for part, rows in enumerate(_split(files, shape.parts), 1):
            name = stem if shape.parts == 1 else f"{stem}.{part:010}.{shape.parts:010}"
            _write_checkpoint(log / f"{name}.parquet", rows, shape)
    hint: dict[str, int] = {"version": CHECKPOINT_VERSION, "size": files + 2}
    if shape.parts > 1:
        hint["parts"] = shape.parts
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    for commit in range(COMMITS + 1):
        (folder / commit_name(commit)).write_bytes(commit_of(files, commit, shape))


def commit_name(commit: int) -> str:
    return f"_delta_log/{CHECKPOINT_VERSION + commit:020}.json"


def commit_of(files: int, commit: int, shape: Shape = CLASSIC) -> bytes:
    """Return the commit with the given number after the checkpoint. Number 0 is the checkpoint's own commit."""
    first = (commit - 1) * FILES_PER_COMMIT
    moment = 1_725_000_000_000 + commit * 60_000
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": moment, "operation": "WRITE"}}]
    if commit:
        added = [file(number, shape) for number in range(files + first, files + first + FILES_PER_COMMIT)]
        removed = [file(number, shape) for number in range(first, first + FILES_PER_COMMIT)]
        actions += [{"add": _add_action(one, moment)} for one in added]
        actions += [{"remove": {"path": one.path, "deletionTimestamp": moment, "dataChange": True}} for one in removed]
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def _add_action(one: File, moment: int) -> dict[str, Any]:
    return {
        "path": one.path,
        "partitionValues": {"pickup_date": one.day},
        "size": one.size,
        "modificationTime": moment,
        "dataChange": True,
        "stats": one.stats,
    }


def _split(files: int, parts: int) -> Iterator[range]:
    for part in range(parts):
        yield range(files * part // parts, files * (part + 1) // parts)


def _write_sidecar(log: Path, rows: range, shape: Shape) -> dict[str, Any]:
    path = log / "_sidecars" / f"{blake2b(str(rows).encode(), digest_size=16).hexdigest()}.parquet"
    path.parent.mkdir(exist_ok=True)
    schema = pa.schema({"add": _add_type(shape), "remove": REMOVE_TYPE})
    with pq.ParquetWriter(path, schema) as writer:
        _write_adds(writer, rows, shape)
    return {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1_724_000_000_000}


def _write_checkpoint(path: Path, rows: range, shape: Shape, sidecars: list[dict[str, Any]] | None = None) -> None:
    columns: dict[str, pa.DataType] = {"protocol": PROTOCOL_TYPE, "metaData": METADATA_TYPE, "remove": REMOVE_TYPE}
    head: list[dict[str, Any]] = []
    if rows.start == 0:
        head = [{"protocol": _protocol(shape)}, {"metaData": METADATA | {"configuration": [], "format": _FORMAT}}]
    if sidecars is None:
        columns["add"] = _add_type(shape)
    else:
        columns |= {"checkpointMetadata": pa.struct({"version": pa.int64()}), "sidecar": SIDECAR_TYPE}
        head += [{"checkpointMetadata": {"version": CHECKPOINT_VERSION}}, *({"sidecar": one} for one in sidecars)]
    schema = pa.schema(columns)
    with pq.ParquetWriter(path, schema) as writer:
        if head:
            writer.write_table(pa.Table.from_pylist(head, schema))
        _write_adds(writer, rows, shape)


_FORMAT = {"provider": "parquet", "options": []}


def _protocol(shape: Shape) -> dict[str, Any]:
    if shape.sidecars:
        features = ["v2Checkpoint"]
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    return {"minReaderVersion": 1, "minWriterVersion": 2}


def _add_type(shape: Shape) -> pa.StructType:
    fields = {
        "path": pa.string(),
        "partitionValues": STRINGS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "tags": STRINGS,
        "stats": pa.string(),
    }
    if shape.parsed_stats:
        fields["partitionValues_parsed"] = pa.struct({"pickup_date": pa.date32()})
        fields["stats_parsed"] = pa.struct(list(STATS_SCHEMA))
    return pa.struct(fields)


def _write_adds(writer: pq.ParquetWriter, rows: range, shape: Shape) -> None:
    for start in range(rows.start, rows.stop, shape.row_group):
        numbers = range(start, min(start + shape.row_group, rows.stop))
        adds = _adds([file(_shuffled(number, rows.stop, shape), shape) for number in numbers], shape)
        columns = [adds if field.name == "add" else pa.nulls(len(adds), field.type) for field in writer.schema]
        writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema))


def _shuffled(number: int, files: int, shape: Shape) -> int:
    """Permute the file numbers of an unordered checkpoint. The factor is a prime that divides no table size."""
    return number * 1_000_003 % files if shape.files_per_day else number


def _adds(files: list[File], shape: Shape) -> pa.StructArray:
    count = len(files)
    days = pa.array([one.day for one in files])
    columns = [
        pa.array([one.path for one in files]),
        pa.MapArray.from_arrays(list(range(count + 1)), pa.repeat("pickup_date", count), days),
        pa.array([one.size for one in files]),
        pa.repeat(pa.scalar(1_720_000_000_000, pa.int64()), count),
        pa.repeat(False, count),
        pa.nulls(count, STRINGS),
        pa.array([one.stats for one in files]),
    ]
    if shape.parsed_stats:
        columns.append(pa.StructArray.from_arrays([days.cast(pa.date32())], ["pickup_date"]))
        columns.append(_parsed([one.stats for one in files]))
    return pa.StructArray.from_arrays(columns, fields=list(_add_type(shape)))


def _parsed(stats: list[str]) -> pa.StructArray:
    options = pyarrow.json.ParseOptions(explicit_schema=STATS_SCHEMA)
    lines = BytesIO("\n".join(stats).encode())
    return pyarrow.json.read_json(lines, parse_options=options).to_struct_array().combine_chunks()
