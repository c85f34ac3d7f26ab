"""The services of a process, shared by all requests: clients, catalog, tables.

Each service is created on first use, so that a cold start of a listing route does not load a table reader.
"""

import threading
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from core.catalog.reader import Catalog
from core.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from core.index.read.indexes import StoredIndexes
    from core.queries.queue import Queue
    from core.queries.store import QueryStore
    from core.sharing.async_queries import AsyncQueries
    from core.sharing.credentials import SharedDirectories
    from core.sharing.tables import SharedTables

# A catalog lookup takes milliseconds. Short timeouts leave time for retries within a request.
CLIENT_CONFIG = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=32,
    tcp_keepalive=True,
)
# The part of the cache memory that chunks of indexes may use. Tables have the rest.
SHARE_OF_CHUNKS = 8


class Services:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session = botocore.session.Session()
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._tables: SharedTables | None = None
        self._async_queries: AsyncQueries | None = None
        self._directories: SharedDirectories | None = None

    @property
    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                settings = self._settings
                self._catalog = Catalog(
                    self._dynamodb, settings.catalog_table, cache_seconds=settings.catalog_cache_seconds
                )
            return self._catalog

    @cached_property
    def _dynamodb(self) -> "DynamoDBClient":
        client = self._session.create_client("dynamodb", region_name=self._settings.region, config=CLIENT_CONFIG)
        return cast("DynamoDBClient", client)

    @property
    def tables(self) -> "SharedTables":
        with self._lock:
            if self._tables is None:
                from core.delta.cache.tables import CacheLimits
                from core.delta.tables import DeltaTables
                from core.sharing.tables import SharedTables
                from core.storage.session import Storage

                storage = Storage.connect(self._settings, self._session)
                limits = CacheLimits.of(self._settings.snapshot_cache_mb)
                index = self._index(limits.memory_bytes // SHARE_OF_CHUNKS)
                for_tables = limits.without(index.cache_bytes if index else 0)
                delta = DeltaTables(limits=for_tables, index=index)
                self._tables = SharedTables(storage, delta, self._settings.staleness_seconds)
            return self._tables

    def _index(self, max_cache_bytes: int) -> "StoredIndexes | None":
        if self._settings.index_table is None:
            return None
        from core.index.read.indexes import StoredIndexes
        from core.index.read.store import IndexStore

        store = IndexStore(self._dynamodb, self._settings.index_table, max_cache_bytes=max_cache_bytes)
        return StoredIndexes(store)

    @property
    def async_queries(self) -> "AsyncQueries":
        with self._lock:
            if self._async_queries is None:
                from core.sharing.async_queries import MEGABYTE, AsyncQueries

                settings = self._settings
                limit = None if settings.async_log_mb is None else settings.async_log_mb * MEGABYTE
                self._async_queries = AsyncQueries(limit, *self._query_state())
            return self._async_queries

    def _query_state(self) -> "tuple[QueryStore, Queue] | tuple[()]":
        settings = self._settings
        if settings.index_table is None or settings.query_queue_url is None:
            return ()
        from core.queries.queue import Queue
        from core.queries.store import QueryStore

        def sqs() -> Any:
            return self._session.create_client("sqs", region_name=settings.region, config=CLIENT_CONFIG)

        return QueryStore(self._dynamodb, settings.index_table), Queue(sqs, settings.query_queue_url)

    @property
    def directories(self) -> "SharedDirectories":
        with self._lock:
            if self._directories is None:
                from core.sharing.credentials import SharedDirectories
                from core.storage.roles import sts_client
                from core.storage.vending import DirectoryCredentials

                sts = sts_client(self._settings, self._session)
                self._directories = SharedDirectories(self._settings, DirectoryCredentials(lambda: sts))
            return self._directories


@cache
def process_services() -> Services:
    return Services(Settings.from_environment())
