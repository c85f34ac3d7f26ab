"""The actions of a checkpoint that are not about files: protocol, metadata, and the sidecars of a V2 checkpoint."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from arro3.core import RecordBatch

from core.delta.log import actions
from core.delta.log.actions import TableAction
from core.delta.log.rows import objects
from core.delta.log.segment import FOLDER
from core.errors import DamagedLogError
from core.storage.location import InvalidLocationError, S3Location
from core.storage.objects import ObjectInfo

if TYPE_CHECKING:
    from core.delta.model import Metadata, Protocol

TABLE_ACTIONS = ("protocol", "metaData", "sidecar")


class TableActions:
    """The newest protocol and metadata. They are checked when they are read, because commits may replace them."""

    def __init__(self) -> None:
        self._newest: dict[str, TableAction] = {}
        self.sidecars: list[tuple[str, int]] = []
        """Paths and sizes."""

    @property
    def protocol(self) -> "Protocol | None":
        newest = self._newest.get("protocol")
        return newest.parsed(actions.protocol) if newest else None

    @property
    def metadata(self) -> "Metadata | None":
        newest = self._newest.get("metaData")
        return newest.parsed(actions.metadata) if newest else None

    def put(self, newest: TableAction) -> None:
        """Replaces the protocol or the metadata."""
        self._newest[newest.name] = newest

    def take(self, action: Mapping[str, Any], file: str = "", line: int | None = None) -> None:
        """Keeps the action if it is not about a file. `file` and `line` are where it is."""
        if (protocol := action.get("protocol")) is not None:
            self.put(TableAction("protocol", protocol, file, line))
        elif (metadata := action.get("metaData")) is not None:
            self.put(TableAction("metaData", metadata, file, line))
        elif (sidecar := action.get("sidecar")) is not None:
            self.sidecars.append(TableAction("sidecar", sidecar, file, line).parsed(_sidecar))

    def take_rows(self, batch: RecordBatch, file: str = "") -> None:
        """Keeps the rows of a Parquet checkpoint that are not about files."""
        for name in TABLE_ACTIONS:
            for value in objects(batch, name):
                self.take({name: value}, file)

    def sidecar_files(self, location: S3Location) -> list[ObjectInfo]:
        return [ObjectInfo(_sidecar_key(location, path), size, 0) for path, size in self.sidecars]


def _sidecar(action: dict[str, Any]) -> tuple[str, int]:
    actions.of_type(dict, action, "the action")
    return actions.path(action["path"]), actions.size(action["sizeInBytes"])


def _sidecar_key(location: S3Location, path: str) -> str:
    """A file name is relative to the sidecar folder. Any other path must be absolute and inside the table."""
    if "/" not in path:
        return location.key(f"{FOLDER}_sidecars/{unquote(path)}")
    try:
        sidecar = S3Location.parse(unquote(path))
    except InvalidLocationError:
        sidecar = None
    if sidecar is None or not location.covers(sidecar):
        raise DamagedLogError("a checkpoint names a sidecar outside of the table")
    return sidecar.prefix
