"""Tables with change feeds, deletion vectors, mapped columns, and damaged logs.

Tables that `deltalake` cannot write are written by hand, including data files, so that real clients can read them.
"""

import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

Action = dict[str, Any]

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
PLAIN: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}


class HandmadeTable:
    """A table with a column `id`. Each file holds a range of numbers."""

    def __init__(self, directory: Path, *, physical_name: str = "id") -> None:
        self.directory = directory
        self._physical_name = physical_name
        self._version = 0
        (directory / "_delta_log").mkdir(parents=True)

    def commit(self, *actions: Action) -> None:
        file = self.directory / "_delta_log" / f"{self._version:020d}.json"
        file.write_text("".join(json.dumps(action) + "\n" for action in actions))
        self._version += 1

    def metadata(self, **configuration: str) -> Action:
        mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": self._physical_name}
        column = {
            "name": "id",
            "type": "long",
            "nullable": True,
            "metadata": mapping if MAPPED.items() <= configuration.items() else {},
        }
        fields = {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [column]}),
            "partitionColumns": [],
            "configuration": configuration,
        }
        return {"metaData": fields}

    def add(self, name: str, numbers: range, **more: Any) -> Action:
        file = self.directory / name
        if not file.exists():
            pq.write_table(pa.table({self._physical_name: pa.array(numbers, pa.int64())}), file)
        stats = json.dumps({"numRecords": len(numbers)})
        fields = {"path": name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1}
        return {"add": fields | {"dataChange": True, "stats": stats} | more}

    def remove(self, name: str, **more: Any) -> Action:
        size = (self.directory / name).stat().st_size
        return {"remove": {"path": name, "dataChange": True, "size": size, "partitionValues": {}} | more}

    def deleted_rows(self, *rows: int) -> Action:
        """Writes a deletion vector to its own file, named after the sum of the rows. Returns its field of an action."""
        bitmap = struct.pack("<I", 1681511377) + _roaring(rows)
        content = b"\x01" + struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        (self.directory / f"deletion_vector_{uuid.UUID(int=sum(rows))}.bin").write_bytes(content)
        code = "0" * 19 + "0123456789abcdefghijklmnopqrstuvwxyz"[sum(rows)]
        fields = {"storageType": "u", "pathOrInlineDv": code, "offset": 1, "sizeInBytes": len(bitmap)}
        return {"deletionVector": fields | {"cardinality": len(rows)}}


def _roaring(rows: tuple[int, ...]) -> bytes:
    """Returns a 64-bit Roaring bitmap with one bucket and one array container, enough for rows below 65,536."""
    header = struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, len(rows) - 1, 16)
    return header + struct.pack(f"<{len(rows)}H", *sorted(rows))


def features(*names: str, writer: tuple[str, ...] = ("changeDataFeed",)) -> Action:
    fields = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [*names]}
    return {"protocol": fields | {"writerFeatures": [*names, *writer]}}


def feed(directory: Path) -> None:
    """Versions: three inserts, an update, a delete, an insert, and an OPTIMIZE."""
    write_deltalake(directory, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), configuration=FEED)
    DeltaTable(directory).update(updates={"name": "'B'"}, predicate="id = 2")
    DeltaTable(directory).delete("id = 3")
    write_deltalake(directory, pa.table({"id": [4], "name": ["d"]}), mode="append")
    DeltaTable(directory).optimize.compact()


def vectors(directory: Path) -> None:
    """Ten rows; two are deleted, then another one; then five are added. The change feed is enabled."""
    table = HandmadeTable(directory)
    first, second = table.deleted_rows(0, 9), table.deleted_rows(0, 5, 9)
    table.commit(features("deletionVectors"), table.metadata(**VECTORS, **FEED), table.add("a", range(10)))
    table.commit(table.remove("a"), table.add("a", range(10), **first))
    table.commit(table.remove("a", **first), table.add("a", range(10), **second))
    table.commit(table.add("b", range(10, 15)))


def modernised(directory: Path) -> None:
    """Starts plain; then deletion vectors and in-commit timestamps are enabled and a row is deleted."""
    table = HandmadeTable(directory)
    modern = features("deletionVectors", writer=("changeDataFeed", "inCommitTimestamp"))
    timed = {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "1"}
    table.commit(PLAIN, table.metadata(**FEED), table.add("a", range(5)))
    table.commit(_at(1_900_000_000_000), modern, table.metadata(**FEED, **VECTORS, **timed))
    table.commit(_at(1_900_000_001_234), table.remove("a"), table.add("a", range(5), **table.deleted_rows(2)))


def _at(timestamp_ms: int) -> Action:
    return {"commitInfo": {"inCommitTimestamp": timestamp_ms, "operation": "DELETE"}}


def leftover_vectors(directory: Path) -> None:
    """Deletion vectors that remain after their property is disabled, and are removed in the last version."""
    table = HandmadeTable(directory)
    deleted = table.deleted_rows(1)
    table.commit(features("deletionVectors"), table.metadata(), table.add("a", range(3), **deleted))
    table.commit(table.remove("a", **deleted), table.add("b", range(5)))


def mapped(directory: Path) -> None:
    """A renamed column with the legacy protocol."""
    table = HandmadeTable(directory, physical_name="col-1")
    legacy = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    table.commit(legacy, table.metadata(**MAPPED, **FEED), table.add("a", range(3)))
    table.commit(table.add("b", range(3, 5)))


def upgraded(directory: Path) -> None:
    """Starts plain; then column mapping is enabled, which keeps the names in files."""
    table = HandmadeTable(directory)
    table.commit(PLAIN, table.metadata(), table.add("a", range(3)))
    table.commit(table.add("b", range(3, 4)))
    table.commit(features("columnMapping"), table.metadata(**MAPPED))
    table.commit(table.add("c", range(4, 6)))


def growing(directory: Path) -> None:
    """Seven files in three versions. The second version adds a description."""
    table = HandmadeTable(directory)
    described = table.metadata(**FEED)
    described["metaData"]["description"] = "numbers"
    table.commit(PLAIN, table.metadata(**FEED), *(table.add(name, range(10)) for name in "gab"))
    table.commit(described, *(table.add(name, range(10)) for name in "fc"))
    table.commit(*(table.add(name, range(10)) for name in "de"))


def too_new(directory: Path) -> None:
    """Readable until its protocol is upgraded."""
    table = HandmadeTable(directory)
    table.commit(PLAIN, table.metadata(), table.add("a", range(3)))
    table.commit({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}})


def switched_off(directory: Path) -> None:
    """The change feed is recorded in versions 0 to 3 only."""
    table = HandmadeTable(directory)
    table.commit(PLAIN, table.metadata(**FEED), table.add("a", range(3)))
    for number in range(1, 4):
        table.commit(table.add(f"f{number}", range(number)))
    table.commit(table.metadata())
    table.commit(table.add("g", range(2)))


def unknown_feature(directory: Path) -> None:
    table = HandmadeTable(directory)
    table.commit(features("geospatial"), table.metadata(), table.add("a", range(3)))


def incomplete(directory: Path) -> None:
    """The commit of version 1 is missing and there is no checkpoint."""
    feed(directory)
    (directory / "_delta_log" / f"{1:020d}.json").unlink()


def cleaned_up(directory: Path) -> None:
    """All commits before the checkpoint of version 3 are removed."""
    feed(directory)
    DeltaTable(directory, version=3).create_checkpoint()
    for version in range(3):
        (directory / "_delta_log" / f"{version:020d}.json").unlink()


def cloned(directory: Path) -> None:
    """A shallow clone: its file belongs to another table."""
    table = HandmadeTable(directory)
    action = table.add("a", range(3))
    action["add"]["path"] = "s3://elsewhere/base/a"
    table.commit(PLAIN, table.metadata(), action)


TABLES = {
    make.__name__: make
    for make in (
        feed, vectors, modernised, leftover_vectors, mapped, upgraded, growing, too_new, switched_off, unknown_feature,
        incomplete, cleaned_up, cloned,
    )
}  # fmt: skip
