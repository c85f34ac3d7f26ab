"""The worker that prepares asynchronous queries: it makes sure that their version can be read from an index.

A worker holds a query by a lease that it renews while it works. If the worker is killed, the lease ends, and the next
poll asks for another worker. All changes can be repeated, so it does not matter where a worker was killed.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.errors import LongLogError, SharingError, TableFilesError
from core.index.layout.rows import NotIndexableError
from core.index.write.version_build import IndexTable, index_of_version
from core.queries.query import KILLED, LEASE_SECONDS, MAX_ATTEMPTS, PENDING, AsyncQuery, Source
from core.queries.store import QueryStore
from core.storage.objects import TableObjects

# Largest log that a function with 3,008 MB indexes in 15 minutes (docs/decisions/0019).
MAX_LOG_BYTES = 1000 * 1024 * 1024

INDEX_IT = (
    "The transaction log of table version {} is too long for this server to read. Please ask your share provider to "
    "index the table with `sluice index`, and run the query again."
)
LATEST_ONLY = (
    "The transaction log of table version {} is too long for this server to read. Please query the latest version, or "
    "a version after a recent checkpoint."
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryWorker:
    store: QueryStore
    indexes: IndexTable
    open_table: Callable[[Source], TableObjects]
    ask_index_job: Callable[[str], None] | None = None
    """Starts the index job for a table, given its name. None if there is no such job."""
    max_log_bytes: float = MAX_LOG_BYTES

    def prepare(self, key: str) -> None:
        """Does nothing if the query needs no worker, or has one already."""
        query = self.store.find(key)
        if query is None or query.status != PENDING or query.job_at is not None:
            return
        leased = self.store.lease(query)
        if leased is None:
            return
        with self._lease_renewed(leased):
            try:
                checkpoint_id = self._index(leased)
            except LongLogError:
                self._hand_over(leased)
            except TableFilesError:
                self._try_again(leased)
                raise
            except (SharingError, NotIndexableError) as error:
                logger.warning("A query on %s failed: %s", leased.source.name, error)
                self.store.fail(leased, _message(error))
            except Exception:
                self._try_again(leased)
                raise
            else:
                self.store.finish(leased, checkpoint_id, leased.version, leased.tip)
                logger.info("Prepared a query on %s at version %d.", leased.source.name, leased.version)

    def _index(self, query: AsyncQuery) -> str:
        opened = self.open_table(query.source)
        return index_of_version(self.indexes, opened, query.version, query.tip, max_log_bytes=self.max_log_bytes)

    def _hand_over(self, query: AsyncQuery) -> None:
        """Leaves a table that is too large for a function to the index job. It indexes the latest version only."""
        if query.pinned:
            self.store.fail(query, LATEST_ONLY.format(query.version))
        elif self.ask_index_job is None:
            self.store.fail(query, INDEX_IT.format(query.version))
        else:
            logger.info("Started the index job for %s, which is too large for a function.", query.source.name)
            self.ask_index_job(query.source.name)
            self.store.wait_for_job(query)

    def _try_again(self, query: AsyncQuery) -> None:
        if query.attempts >= MAX_ATTEMPTS:
            self.store.fail(query, KILLED)
        else:
            self.store.release(query)

    @contextlib.contextmanager
    def _lease_renewed(self, query: AsyncQuery) -> Iterator[None]:
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(LEASE_SECONDS / 3):
                try:
                    self.store.renew(query)
                except Exception:  # the next renewal may succeed
                    logger.warning("The lease of a query was not renewed.", exc_info=True)

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _message(error: SharingError | NotIndexableError) -> str:
    return error.message if isinstance(error, SharingError) else f"The table cannot be indexed. {error}"
