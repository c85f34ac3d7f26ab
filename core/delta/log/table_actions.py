"""The actions of a checkpoint that are not about files: protocol, metadata, and the sidecars of a V2 checkpoint."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from arro3.core import RecordBatch

from core.delta.log import actions
from core.delta.log.listing import FOLDER
from core.delta.log.rows import objects
from core.errors import MalformedRequestError
from core.storage.location import InvalidLocationError, S3Location
from core.storage.objects import ObjectInfo

if TYPE_CHECKING:
    from core.delta.model import Metadata, Protocol

TABLE_ACTIONS = ("protocol", "metaData", "sidecar")


class TableActions:
    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.sidecars: list[tuple[str, int]] = []
        """Paths and sizes."""

    def take(self, action: Mapping[str, Any]) -> None:
        """Keeps the action if it is not about a file."""
        if (protocol := action.get("protocol")) is not None:
            self.protocol = actions.protocol(protocol)
        elif (metadata := action.get("metaData")) is not None:
            self.metadata = actions.metadata(metadata)
        elif (sidecar := action.get("sidecar")) is not None:
            self.sidecars.append((actions.path(sidecar["path"]), actions.size(sidecar["sizeInBytes"])))

    def take_rows(self, batch: RecordBatch) -> None:
        """Keeps the rows of a Parquet checkpoint that are not about files."""
        for name in TABLE_ACTIONS:
            for value in objects(batch, name):
                self.take({name: value})

    def sidecar_files(self, location: S3Location) -> list[ObjectInfo]:
        return [ObjectInfo(_sidecar_key(location, path), size, 0) for path, size in self.sidecars]


def _sidecar_key(location: S3Location, path: str) -> str:
    """A file name is relative to the sidecar folder. Any other path must be absolute and inside the table."""
    if "/" not in path:
        return location.key(f"{FOLDER}_sidecars/{unquote(path)}")
    try:
        sidecar = S3Location.parse(unquote(path))
    except InvalidLocationError:
        sidecar = None
    if sidecar is None or not location.covers(sidecar):
        raise MalformedRequestError("A checkpoint of the table's transaction log names a file outside of the table.")
    return sidecar.prefix
