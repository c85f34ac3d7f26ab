"""What reading a table needs from an index.

An index holds a table's files at one version. It takes the place of a checkpoint: newer commits are replayed on top of
it. It only makes answers faster. If it cannot be used, the log is read instead.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from core.delta.log.replay import CheckpointFiles
from core.delta.model import FileKey, Metadata
from core.storage.objects import ObjectInfo

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

INDEX = ":index-"


def is_index(checkpoint_id: str) -> bool:
    """Whether a snapshot with this checkpoint id was read from an index."""
    return INDEX in checkpoint_id


class UnusableIndexError(Exception):
    """An index is missing, damaged or cannot be read.

    `keys_yielded` returns the keys of the files that the index yielded before it failed.
    """

    def __init__(self, reason: str, keys_yielded: Callable[[], Iterable[FileKey]] = tuple) -> None:
        super().__init__(reason)
        self.keys_yielded = keys_yielded


class TableIndex(CheckpointFiles, Protocol):
    @property
    def metadata(self) -> Metadata: ...

    def num_files_left(self, predicate: "Predicate | None") -> int:
        """The number of files in the parts of the index that a query with this predicate reads."""

    @property
    def version(self) -> int: ...

    @property
    def tip(self) -> ObjectInfo:
        """The log tip when the index was built. A different object at that version means a different log."""

    @property
    def build(self) -> str: ...


class Indexes(Protocol):
    """The indexes of all tables."""

    def latest(self, location_uri: str) -> TableIndex | None:
        """The live index of a table. Returns None if it has none, or if its index is distrusted."""

    def of_build(self, location_uri: str, build: str) -> TableIndex:
        """The index of a build, live or not. Raises `UnusableIndexError` if it does not exist."""

    def distrust(self, location_uri: str) -> None:
        """Stops using the table's index for a while."""
