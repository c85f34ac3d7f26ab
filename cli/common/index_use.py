"""Whether the server would use the index of a table."""

from core.delta.cache.snapshots import why_index_is_unusable
from core.delta.index import TableIndex
from core.delta.log.listing import list_log
from core.storage.session import StorageSession


def why_unusable(index: TableIndex, storage: StorageSession, version: int) -> str | None:
    """Returns why the server reads a version from the log instead, or None if it uses the index. Lists the log."""
    log = list_log(storage.objects(), storage.location, from_version=index.version)
    return why_index_is_unusable(index, log, version)
