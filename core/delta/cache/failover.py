"""Falls back to the log if an index fails, even in the middle of a response. The response stays the same."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from core.delta.cache.log import CachedLog
from core.delta.cache.snapshots import SnapshotLoader, index_build
from core.delta.cache.tables import CachedTable
from core.delta.index import Indexes, UnusableIndexError
from core.delta.log.batch import NumberedBatch
from core.delta.model import file_keys
from core.delta.snapshot import LoadedSnapshot, Snapshot
from core.delta.source import Demand
from core.errors import ChangedLogError

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

logger = logging.getLogger(__name__)


class IndexFailover:
    def __init__(
        self, cached: CachedTable, location_uri: str, log: CachedLog, loader: SnapshotLoader, index: Indexes | None
    ) -> None:
        self._cached = cached
        self._location_uri = location_uri
        self._log = log
        self._loader = loader
        self._index = index

    def distrust(self, problem: UnusableIndexError) -> None:
        """Stops using the table's index for a while. The caller holds the cached table's lock."""
        logger.warning("The index of a table cannot be used; reading its log instead: %s", problem)
        if self._index:
            self._index.distrust(self._location_uri)
        self._cached.index = self._cached.indexed = None

    def is_readable(self, loaded: LoadedSnapshot, demand: Demand) -> bool:
        """Whether the first files can be read. The caller holds the cached table's lock."""
        checkpoint = loaded.state.checkpoint
        try:
            if checkpoint:
                next(checkpoint.batches(demand.predicate(loaded.snapshot.metadata)), None)
        except UnusableIndexError as problem:
            self.distrust(problem)
            return False
        return True

    def in_order(self, loaded: LoadedSnapshot) -> Snapshot:
        """Returns the snapshot. If its index fails while it is read, the rest of its order is lost."""
        if index_build(loaded) is None:
            return loaded.snapshot
        return replace(loaded.snapshot, batches_after=partial(self._ordered, loaded))

    def _ordered(self, loaded: LoadedSnapshot, predicate: "Predicate | None", after: int) -> Iterator[NumberedBatch]:
        try:
            yield from loaded.snapshot.batches_after(predicate, after)
        except UnusableIndexError as problem:
            with self._cached.lock:
                self.distrust(problem)
            raise ChangedLogError(loaded.snapshot.version) from problem

    def protected(self, loaded: LoadedSnapshot) -> Snapshot:
        """Returns the snapshot. If its index fails while it is read, the remaining files come from the log."""
        if index_build(loaded) is None:
            return loaded.snapshot
        return replace(loaded.snapshot, batches_after=partial(self._batches, loaded))

    def _batches(self, loaded: LoadedSnapshot, predicate: "Predicate | None", after: int) -> Iterator[NumberedBatch]:
        try:
            yield from loaded.snapshot.batches_after(predicate, after)
        except UnusableIndexError as problem:
            version = loaded.snapshot.version
            if after:
                raise ChangedLogError(version) from problem
            with self._cached.lock:
                self.distrust(problem)
                log = self._log.back_to(version)
                log.check_tip(version, loaded.snapshot.tip)
                snapshot = self._loader.from_log(log, version)
            added = {key for key, add in loaded.state.files.items() if add is not None}
            done = added.union(problem.keys_yielded())
            for batch in snapshot.batches_after(predicate, 0):
                keys = file_keys(batch.files.paths, batch.files.deletion_vectors)
                yield batch.only(key not in done for key in keys)
