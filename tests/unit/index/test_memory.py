"""What a reader keeps of an index: it counts towards the limit of the cache, and is freed when it is evicted."""

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from core.delta.cache.tables import CacheLimits
from core.delta.tables import DeltaTables
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.pruning import zone_maps
from core.pruning.schema import DataType, Field
from core.pruning.zone_maps import ZoneMap, ZoneMapBatch
from tests.unit.delta.builder import PROTOCOL, TableInMemory, add, metadata
from tests.unit.index.indexed_table import TABLE, IndexedTable, files, kept

if TYPE_CHECKING:
    from core.index.layout.root import Root

HINT = "id = 7"


@pytest.fixture
def env() -> IndexedTable:
    table = IndexedTable()
    table.begin(*files(0, 40))
    table.build()
    return table


class Reader:
    def __init__(self, env: IndexedTable, memory_bytes: int) -> None:
        self._env = env
        store = IndexStore(cast("Any", env.dynamodb), TABLE, max_cache_bytes=0, sleep=lambda _: None)
        self.indexes = StoredIndexes(store, now=lambda: 0.0)
        self.tables = DeltaTables(limits=CacheLimits(memory_bytes), index=self.indexes)

    def root(self) -> "weakref.ref[Root]":
        index = self.indexes.latest(self._env.lake.location.uri)
        assert index is not None
        return weakref.ref(index.root)

    def kept(self) -> list[str]:
        """The files that a selective query keeps, after a check that they come from the index."""
        snapshot = self.tables.snapshot(self._env.lake.storage())
        assert "index" in snapshot.checkpoint_id
        return kept(snapshot, HINT)

    def roots_read(self) -> int:
        """The number of requests for a root in two queries."""
        self._env.dynamodb.requests.clear()
        assert self.kept() == self.kept() == ["00007.parquet"]
        return sum("Query" in str(request) for request in self._env.dynamodb.requests)


def test_a_root_that_fits_is_read_once(env: IndexedTable) -> None:
    reader = Reader(env, 10**9)
    assert reader.kept() == ["00007.parquet"]
    root = reader.root()
    gc.collect()
    assert root() is not None
    assert reader.roots_read() == 0


def test_a_root_that_does_not_fit_is_used_and_freed(env: IndexedTable) -> None:
    reader = Reader(env, 1000)
    assert reader.kept() == ["00007.parquet"]
    gc.collect()
    assert reader.root()() is None
    assert reader.roots_read() == 2


@pytest.mark.parametrize("fits", [True, False])
def test_a_table_that_needs_the_room_evicts_a_root(env: IndexedTable, fits: bool) -> None:
    root_bytes = env.root().memory_bytes
    reader = Reader(env, root_bytes + 20_000)
    assert reader.kept() == ["00007.parquet"]
    root = reader.root()
    other = TableInMemory("other")
    size = 1000 if fits else root_bytes + 15_000
    other.commit(0, PROTOCOL, metadata(), add("a", stats="x" * size))
    reader.tables.snapshot(other.storage())
    gc.collect()
    assert (root() is not None) == fits


def test_the_chunk_cache_stays_within_its_limit(env: IndexedTable) -> None:
    store = IndexStore(cast("Any", env.dynamodb), TABLE, max_cache_bytes=1, sleep=lambda _: None)
    tables = DeltaTables(index=StoredIndexes(store, now=lambda: 0.0))
    for _ in range(2):
        env.dynamodb.requests.clear()
        assert kept(env.snapshot(tables), HINT) == ["00007.parquet"]
        assert env.dynamodb.requests, "no chunk fits the cache, so each query reads them"


class CountedZones(Mapping[Field, Sequence[ZoneMap]]):
    """Zone maps of columns with the values 0, 1 and 2, that count how often a column is read."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.reads = dict.fromkeys(fields, 0)

    def __getitem__(self, field: Field) -> Sequence[ZoneMap]:
        self.reads[field] += 1
        return [ZoneMap(value, value, has_values=True, has_nulls=False) for value in range(3)]

    def __contains__(self, field: object) -> bool:
        return field in self.reads

    def __iter__(self) -> Iterator[Field]:
        return iter(self.reads)

    def __len__(self) -> int:
        return len(self.reads)


def test_the_columns_used_last_stay_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_maps, "MAX_COLUMNS", 2)
    a, b, c = fields = [Field((name,), DataType("long"), in_partitions=False, was_float=False) for name in "abc"]
    zones = CountedZones(fields)
    batch = ZoneMapBatch(3, zones)
    for field in (a, b, a, c, a, b):
        assert batch.ranges(field)[0] == ([0, 1, 2], [0, 1, 2])
    assert zones.reads == {a: 1, b: 2, c: 1}
