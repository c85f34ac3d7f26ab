"""Which tables this server can read: those of Delta reader version 1."""

from core.delta.snapshot import Protocol
from core.errors import UnsupportedOperationError

READER_VERSION = 1


def check_readable(protocol: Protocol) -> None:
    if protocol.min_reader_version != READER_VERSION:
        features = f" ({', '.join(protocol.reader_features)})" if protocol.reader_features else ""
        raise UnsupportedOperationError(
            f"The table needs Delta reader version {protocol.min_reader_version}{features}, "
            "which this server does not support yet."
        )
