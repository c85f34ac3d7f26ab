"""Opens a table like the server does, but with the caller's credentials, and explains a query."""

from collections.abc import Callable
from dataclasses import replace

from cli.common.account import Account
from cli.common.reading import reading
from cli.explain.funnel import Funnel, follow
from cli.explain.index import Stage, Stopwatch, TimedIndexes
from core.api.requests.query import QueryRequest
from core.catalog.model import Table
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.read.store import IndexStore
from core.sharing.row_counts import FooterRowCounts
from core.sharing.selection import Selection
from core.sharing.tables import SharedTables, require_urls


def explain_query(account: Account, table: Table, query: QueryRequest, progress: Callable[[str], None]) -> Funnel:
    with reading(table):
        return _explain(account, table, query, progress)


def _explain(account: Account, table: Table, query: QueryRequest, progress: Callable[[str], None]) -> Funnel:
    require_urls(table)
    watch, index_table = Stopwatch(), account.settings.index_table
    indexes = TimedIndexes(IndexStore(account.client("dynamodb"), index_table), watch) if index_table else None
    tables = SharedTables(account.storage(), DeltaTables(index=indexes))
    storage = tables.open(table)
    with watch.on(Stage.LOG):
        demand = Selection.demand(query)
        snapshot = tables.snapshot(table, storage, version=query.version, timestamp=query.timestamp, demand=demand)
    selection = Selection.of(query, snapshot.metadata, FooterRowCounts(table, storage))
    use = indexes.use(snapshot, selection) if indexes else None
    funnel = follow(snapshot, selection, lambda read: progress(f"{read:,} of {snapshot.num_files:,} files"))
    source = snapshot.source
    if use is None and (source is None or source.way is Way.INDEX):  # not chosen, or failed since
        unused = indexes.unused(storage, snapshot.version) if indexes else None
        return replace(funnel, unused_index=unused)
    return replace(funnel, index=use, source=source)
