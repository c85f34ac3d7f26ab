"""Opens a table as the server does, with the credentials of the command's caller, and explains a query of it."""

from collections.abc import Callable

from cli.account import Account
from cli.errors import CommandError
from cli.explain.funnel import Funnel, follow
from core.api.query import QueryRequest
from core.catalog.model import Table
from core.delta.tables import DeltaTables
from core.errors import SharingError, TableFilesError
from core.sharing.selection import Selection
from core.sharing.tables import SharedTables, require_urls
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError


def explain_query(account: Account, table: Table, query: QueryRequest, progress: Callable[[str], None]) -> Funnel:
    try:
        return _explain(SharedTables(account.storage(), DeltaTables()), table, query, progress)
    except (NoStorageRoleError, InvalidLocationError, TableFilesError) as error:
        message = f"The table '{table.full_name}' cannot be read: {error.__cause__ or error}."
        raise CommandError(f"{message} `sluice doctor {table.full_name}` says what to do.") from error
    except SharingError as error:
        raise CommandError(error.message) from error


def _explain(tables: SharedTables, table: Table, query: QueryRequest, progress: Callable[[str], None]) -> Funnel:
    require_urls(table)
    snapshot = tables.snapshot(table, tables.open(table), version=query.version, timestamp=query.timestamp)
    selection = Selection.of(query, snapshot.metadata)
    return follow(snapshot, selection, lambda seen: progress(f"{seen:,} of {snapshot.num_files:,} files"))
