"""A table's metadata, and the two lines that it shares with every answer about a snapshot."""

from core.api.metadata import MetadataRequest
from core.api.response import Response
from core.catalog.model import Table
from core.delta.features import active_features, enabled_features, relayed
from core.delta.snapshot import Snapshot
from core.sharing.answers import ANSWERS, Asked, TableAnswer
from core.sharing.formats import choose_format
from core.sharing.tables import SharedTables
from core.storage.session import StorageSession


def answer_metadata(tables: SharedTables, table: Table, metadata: MetadataRequest, asked: Asked) -> Response:
    storage = tables.open(table)
    snapshot = tables.snapshot(table, storage, version=metadata.version, timestamp=metadata.timestamp)
    answer, head = begin_snapshot(table, storage, asked, snapshot)
    return answer.response(snapshot.version, [head], echoes=False)


def begin_snapshot(
    table: Table, storage: StorageSession, asked: Asked, snapshot: Snapshot
) -> tuple[TableAnswer, bytes]:
    """An answer in the format that suits the client and the snapshot, and its protocol and metaData lines."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    active = active_features(protocol, metadata, deletion_vectors=snapshot.num_deletion_vectors > 0)
    enabled = enabled_features(protocol, metadata)
    answer = ANSWERS[choose_format(asked.capabilities, active, enabled)](table, storage, asked)
    head = answer.protocol_line(relayed(protocol, active | enabled)) + answer.metadata_line(metadata, totals=snapshot)
    return answer, head
