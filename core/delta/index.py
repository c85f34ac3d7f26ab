"""What reading a table takes from an index, if it has one.

An index holds a table's files at one version, as a checkpoint does, and stands in the place of one: newer commits are
laid over it in the same way. It only makes answers faster. On any doubt the log itself is read.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from core.delta.log.actions import Key
from core.delta.log.replay import CheckpointFiles
from core.storage.objects import ObjectInfo


class UnusableIndexError(Exception):
    """An index that is missing, damaged, or not of this log. `told`: the keys of files that it gave before."""

    def __init__(self, reason: str, told: Callable[[], Iterable[Key]] = tuple) -> None:
        super().__init__(reason)
        self.told = told


class Indexed(CheckpointFiles, Protocol):
    @property
    def version(self) -> int: ...

    @property
    def tip(self) -> ObjectInfo:
        """The object that stood for the version when the index was built: another one there means another log."""

    @property
    def build(self) -> str: ...


class Index(Protocol):
    """The indexes of all tables."""

    def latest(self, location_uri: str) -> Indexed | None:
        """The newest index of a table, if there is one that can be used."""

    def distrust(self, location_uri: str) -> None:
        """Not to be used again for a while."""
