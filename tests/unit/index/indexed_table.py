"""A table and its index, both in memory, with the builds that write the index and the processes that read it."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, cast

from core.api.requests.query import QueryRequest
from core.delta.log.listing import whole_log
from core.delta.model import Add, Metadata
from core.delta.reader import read_snapshot
from core.delta.snapshot import Snapshot
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write.build import Build
from core.index.write.full_build import build_full
from core.index.write.incremental_build import build_incremental
from core.index.write.version_build import IndexTable, indexed, live_index
from core.index.write.writer import IndexWriter
from core.sharing.call import Observed
from core.sharing.selection import Selection
from core.storage.objects import TableObjects
from tests.memory_dynamodb import MemoryDynamoDB
from tests.unit.delta.builder import PROTOCOL, Action, TableInMemory, add, metadata

TABLE = "index"


def schema_of(**types: Any) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def mapped(**physical_names: str) -> str:
    """A schema with column mapping: columns have other names in files and statistics."""
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number},
        }
        for number, (name, physical) in enumerate(physical_names.items())
    ]
    return json.dumps({"type": "struct", "fields": fields})


def metadata_of(*partition_columns: str, **types: Any) -> Metadata:
    return Metadata("m", schema_of(**types), partition_columns)


def stats(number: int, text: str | None = None) -> str:
    """Statistics of a file with one value of `id`, and one of `s` that does not compress."""
    values = {"id": number, "s": text or hashlib.sha256(str(number).encode()).hexdigest()[:31]}
    return json.dumps({"numRecords": 10, "minValues": values, "maxValues": values, "nullCount": {"id": 0, "s": 0}})


def files(begin: int, end: int) -> list[Action]:
    return [
        add(f"{number:05d}.parquet", p=f"{number % 2}", size=number, stats=stats(number))
        for number in range(begin, end)
    ]


def file(path: str = "a", **fields: Any) -> Add:
    return Add(path, {}, 1, 0, True, None)._replace(**fields)


class IndexedTable:
    def __init__(self, lake: TableInMemory | None = None) -> None:
        self.lake = lake or TableInMemory()
        self.table = table_of(self.lake.location.uri)
        self.dynamodb = MemoryDynamoDB()
        self.store = self._store()
        self.writer = IndexWriter(cast("Any", self.dynamodb), TABLE, sleep=lambda _: None)
        self.indexes = IndexTable(self.store, self.writer)

    def begin(self, *actions: Action) -> None:
        """Makes the first commit: a table with columns `id` and `s`, partitioned by `p`."""
        schema = schema_of(id="long", s="string", p="string")
        self.lake.commit(0, PROTOCOL, metadata(schemaString=schema), *actions)

    def build(self, *, at: float = 0.0, full: bool = False, columns: int = INDEXED_COLUMNS) -> Head:
        """Indexes the latest version at the time `at`: incrementally if there is an index, unless `full`."""
        head = self.writer.head(self.table)
        return self.build_on(None if full else head, head, at=at, columns=columns)

    def build_on(
        self, older: Head | None, expected: Head | None, *, at: float = 0.0, columns: int = INDEXED_COLUMNS
    ) -> Head:
        opened = TableObjects(self.lake.objects(), self.lake.location)
        log = whole_log(*opened)
        build = Build(self.writer, self.table, now=lambda: at).begin()
        if older is None:
            replayed = read_snapshot(*opened, log.segment(log.version))
            live = expected.build if expected else None
            files = [(each, None) for each in replayed.snapshot.adds()]
            return build_full(build, indexed(replayed), files, live, columns=columns)
        base = live_index(self.indexes, opened, older)
        assert base is not None
        segment = log.segment_after(base.version, f"{base.version}:index", log.version)
        replayed = read_snapshot(*opened, segment, checkpoint=base)
        return build_incremental(build, base, indexed(replayed), replayed.state.files, columns=columns)

    def reader(self, now: Callable[[], float] = lambda: 0.0, *, way: Way | None = Way.INDEX) -> DeltaTables:
        """A process that reads the table, with its own clock. It uses the index, unless `way` is another."""
        return DeltaTables(index=StoredIndexes(self._store(), now=now), way=way)

    def _store(self) -> IndexStore:
        """Each process has its own store, because it caches chunks."""
        return IndexStore(cast("Any", self.dynamodb), TABLE, sleep=lambda _: None)

    def snapshot(self, reader: DeltaTables | None = None) -> Snapshot:
        return (reader or self.reader()).snapshot(self.lake.storage())

    def root(self) -> Root:
        """The root of the live build."""
        head = self.writer.head(self.table)
        assert head is not None
        return Root.unpack(self.store.root(self.table, head.build))

    def keys(self, part: str, build: str = "") -> set[tuple[str, str]]:
        """The keys of existing items. `part` is `C` for chunks, `K` for buckets, `ROOT` for roots."""
        return {key for key in self.dynamodb.items if f"#{part}" in key[0] and build in key[0]}

    def remove(self, keys: set[tuple[str, str]]) -> None:
        for key in keys:
            del self.dynamodb.items[key]


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(each.path for each in snapshot.adds())


def kept(snapshot: Snapshot, hint: str) -> list[str]:
    selection = Selection.of(QueryRequest(predicate_hints=(hint,)), snapshot.metadata)
    found = selection.kept(snapshot.batches_after(selection.predicate, 0), Observed())
    return sorted(path for kept_files in found for path in kept_files.files.paths)


def check_same(env: IndexedTable, hints: list[str]) -> None:
    """Checks that every hint keeps the same files with the index as without it."""
    expected, snapshot = DeltaTables().snapshot(env.lake.storage()), env.snapshot()
    assert "index" in snapshot.checkpoint_id
    assert snapshot.metadata == expected.metadata
    for hint in hints:
        assert kept(snapshot, hint) == kept(expected, hint), hint
