"""Measures what parts of a cached table take in memory, in a process of its own: `python -m tests.counted_memory CASE`.

Run it with PYTHONMALLOC=malloc. The C library then knows all memory in use, of Python and of Arrow.
"""

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from core.delta.log.checkpoint import Checkpoint
from core.delta.log.replay import Replay
from core.delta.log.segment import LogSegment
from core.delta.model import Metadata, Protocol, Totals
from core.index.layout.items import Place
from core.index.layout.root import ChunkInfo, Root
from core.pruning.schema import DataType, Field
from core.pruning.zone_maps import MAX_COLUMNS, ZoneMap
from core.storage.objects import ObjectInfo

CHUNKS, FILES = 2000, 8000
SCHEMA = json.dumps({"type": "struct", "fields": []})
TIP = ObjectInfo("t/_delta_log/00000000000000000000.json", 1, 1)


# The fields of `struct mallinfo2` in glibc.
MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


def bytes_in_use() -> int:
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def root_of_numbers() -> tuple[Callable[[], Any], Callable[[Any], int]]:
    return _root(lambda chunk, column: ZoneMap(chunk * 10**6 + column, chunk * 10**6 + 999, True, False))


def root_of_texts() -> tuple[Callable[[], Any], Callable[[Any], int]]:
    return _root(lambda chunk, column: ZoneMap(f"{chunk:050}{column}", f"{chunk:050}{column}z", True, True))


def _root(zone: Callable[[int, int], ZoneMap]) -> tuple[Callable[[], Any], Callable[[Any], int]]:
    fields = [Field((f"c{column}",), DataType("string"), False, False) for column in range(12)]
    packed = Root(
        1,
        TIP,
        Protocol(1, 2),
        Metadata("m", SCHEMA),
        Totals(1, 1, 0),
        [
            ChunkInfo(Place("0707d1c3579f42b9", chunk), 300, 65_000 + chunk, chunk * 10**6, False)
            for chunk in range(CHUNKS)
        ],
        {field: [zone(chunk, column) for chunk in range(CHUNKS)] for column, field in enumerate(fields)},
        [Place("0707d1c3579f42b9", bucket) for bucket in range(2 * CHUNKS)],
    ).pack()

    def read() -> Root:
        root = Root.unpack(packed)
        for field in fields:
            root.zone_batch.ranges(field)
        assert len(fields) > MAX_COLUMNS
        return root

    return read, lambda root: int(root.memory_bytes)


def decoded_checkpoint() -> tuple[Callable[[], Any], Callable[[Any], int]]:
    adds = [_add(number) for number in range(FILES)]
    strings = pa.map_(pa.string(), pa.string())
    types = {"path": pa.string(), "partitionValues": strings, "size": pa.int64(), "modificationTime": pa.int64()}
    add = pa.struct({**types, "dataChange": pa.bool_(), "stats": pa.string()})
    rows = [{"add": one | {"partitionValues": list(one["partitionValues"].items())}} for one in adds]
    written = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema({"add": add})), written)
    content = written.getvalue()

    def read() -> Checkpoint:
        checkpoint = Checkpoint([bytes(bytearray(content))])
        for batch in checkpoint.batches():
            assert len(batch.partition_values) == len(batch.sizes) == len(batch.deletion_vectors)
        return checkpoint

    return read, lambda checkpoint: int(checkpoint.memory_bytes)


def commits() -> tuple[Callable[[], Any], Callable[[Any], int]]:
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "m", "format": {"provider": "parquet"}, "schemaString": SCHEMA, "partitionColumns": []}},
        *({"add": _add(number)} for number in range(FILES)),
    ]
    content = "\n".join(map(json.dumps, actions)).encode()

    def read() -> Any:
        replay = Replay()
        replay.apply(content)
        return replay.result(LogSegment(0, 0, TIP, (), (TIP,), "0"))

    return read, lambda state: int(state.memory_bytes)


def _add(number: int) -> dict[str, Any]:
    values = {"id": number, "name": f"a name that is long enough to be truncated {number}"}
    stats = {"numRecords": 10, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(values, 0)}
    return {
        "path": f"day={number % 2000}/part-{number:05}-0d9a1c8e-2a57-4a1b-9f0e-3f6f8f4b7c11.c000.snappy.parquet",
        "partitionValues": {"day": str(number % 2000)},
        "size": 10**8 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats),
    }


CASES = (root_of_numbers, root_of_texts, decoded_checkpoint, commits)


def main() -> None:
    read, count = next(case for case in CASES if case.__name__ == sys.argv[1])()
    read()  # imports and caches of modules do not count
    before = bytes_in_use()
    kept = read()
    used = bytes_in_use() - before
    sys.stdout.write(json.dumps({"used": used, "counted": count(kept)}))


if __name__ == "__main__":
    main()
