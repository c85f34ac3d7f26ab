"""Answers metadata requests, and writes the protocol and metaData lines that begin every answer about a snapshot."""

from core.api.requests.metadata import MetadataRequest
from core.api.response import Response
from core.catalog.model import Table
from core.delta.features import active_features, enabled_features, protocol_for_clients
from core.delta.snapshot import Snapshot
from core.delta.source import NO_FILES
from core.sharing.answers.table_answer import AnswerOptions, TableAnswer
from core.sharing.formats import ANSWERS, choose_format
from core.sharing.tables import SharedTables
from core.storage.session import StorageSession


def answer_metadata(tables: SharedTables, table: Table, metadata: MetadataRequest, options: AnswerOptions) -> Response:
    storage = tables.open(table)
    snapshot = tables.snapshot(table, storage, version=metadata.version, timestamp=metadata.timestamp, demand=NO_FILES)
    answer, head = begin_snapshot(table, storage, options, snapshot)
    return answer.response(snapshot.version, [head], may_end_stream=False)


def begin_snapshot(
    table: Table, storage: StorageSession, options: AnswerOptions, snapshot: Snapshot
) -> tuple[TableAnswer, bytes]:
    """Returns an answer in the format that suits the client and the snapshot, and its protocol and metaData lines."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    active = active_features(protocol, metadata, deletion_vectors=snapshot.num_deletion_vectors > 0)
    enabled = enabled_features(protocol, metadata)
    answer = ANSWERS[choose_format(options.capabilities, active, enabled)](table, storage, options)
    head = answer.protocol_line(protocol_for_clients(protocol, active | enabled)) + answer.metadata_line(
        metadata, totals=snapshot
    )
    return answer, head
