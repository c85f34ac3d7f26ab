"""The root of an index: the snapshot's protocol, metadata and totals, and the places of all chunks and buckets.

It has the zone map of every indexed column for each chunk, so a query knows which chunks to read.
"""

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from core.delta.index import UnusableIndexError
from core.delta.model import Metadata, Protocol, Totals
from core.index.layout.items import Place
from core.pruning.schema import DataType, Field
from core.pruning.values import ABOVE_ALL
from core.pruning.zone_maps import ZoneMap, ZoneMapBatch
from core.storage.objects import ObjectInfo

# Increment it when the stored format changes. Readers do not use an index with another number.
FORMAT = 2
TOP_TEXT, INFINITY_TEXT = "top", "inf"


class ChunkInfo(NamedTuple):
    place: Place
    files: int
    size: int
    """In bytes."""
    checksum: int
    in_tail: bool
    """Whether the next incremental build packs its files again."""


@dataclass(frozen=True)
class Root:
    version: int
    tip: ObjectInfo
    """The log tip when the index was built. A different object at that version means a different log."""
    protocol: Protocol
    metadata: Metadata
    totals: Totals
    chunks: Sequence[ChunkInfo]
    zones: Mapping[Field, Sequence[ZoneMap]]
    """The zone maps of each indexed column, one per chunk."""
    buckets: Sequence[Place]

    @cached_property
    def zone_batch(self) -> ZoneMapBatch:
        return ZoneMapBatch(len(self.chunks), self.zones)

    def pack(self) -> bytes:
        document = {
            "form": FORMAT,
            "version": self.version,
            "tip": self.tip,
            "protocol": asdict(self.protocol),
            "metadata": asdict(self.metadata),
            "totals": self.totals,
            "chunks": self.chunks,
            "zones": [
                [_field_document(field), [_zone_document(zone) for zone in zones]]
                for field, zones in self.zones.items()
            ],
            "buckets": self.buckets,
        }
        return zlib.compress(json.dumps(document, separators=(",", ":")).encode())

    @classmethod
    def unpack(cls, content: bytes) -> "Root":
        try:
            document = json.loads(zlib.decompress(content))
            if document["form"] != FORMAT:
                raise UnusableIndexError("its format is not supported")
            return cls._from_document(document)
        except (zlib.error, ValueError, KeyError, TypeError) as error:
            raise UnusableIndexError("its root is damaged") from error

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> "Root":
        return cls(
            document["version"],
            ObjectInfo(*document["tip"]),
            Protocol(**{name: _frozen(value) for name, value in document["protocol"].items()}),
            Metadata(**{name: _frozen(value) for name, value in document["metadata"].items()}),
            Totals(*document["totals"]),
            [ChunkInfo(Place(*place), *more) for place, *more in document["chunks"]],
            LazyZones({_field(field): zones for field, zones in document["zones"]}),
            [Place(*place) for place in document["buckets"]],
        )


class LazyZones(Mapping[Field, Sequence[ZoneMap]]):
    """Decodes the zone maps of a column on first use, because a query needs only one or two columns."""

    def __init__(self, documents: Mapping[Field, list[Any]]) -> None:
        self._documents = documents
        self._zones: dict[Field, Sequence[ZoneMap]] = {}

    def __getitem__(self, field: Field) -> Sequence[ZoneMap]:
        if field not in self._zones:
            self._zones[field] = [_zone(document) for document in self._documents[field]]
        return self._zones[field]

    def __contains__(self, field: object) -> bool:
        return field in self._documents

    def __iter__(self) -> Iterator[Field]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _field_document(field: Field) -> list[Any]:
    data_type = field.type
    return [field.path, [data_type.name, data_type.precision, data_type.scale], field.in_partitions, field.was_float]


def _field(document: list[Any]) -> Field:
    path, data_type, in_partitions, was_float = document
    return Field(tuple(path), DataType(*data_type), in_partitions=in_partitions, was_float=was_float)


def pack_zones(zones: Iterable[ZoneMap]) -> bytes:
    return json.dumps([_zone_document(zone) for zone in zones]).encode()


def unpack_zones(content: bytes) -> list[ZoneMap]:
    return [_zone(document) for document in json.loads(content)]


def _zone_document(zone: ZoneMap) -> list[Any]:
    return [_bound_document(zone.low), _bound_document(zone.high), int(zone.has_values), int(zone.has_nulls)]


def _zone(document: list[Any]) -> ZoneMap:
    low, high, has_values, has_nulls = document
    return ZoneMap(_bound(low), _bound(high), bool(has_values), bool(has_nulls))


def _bound_document(bound: Any) -> Any:
    """The bound as JSON. `ABOVE_ALL` and infinity become lists, because JSON has no such values."""
    if bound is ABOVE_ALL:
        return [TOP_TEXT]
    if isinstance(bound, float) and math.isinf(bound):
        return [INFINITY_TEXT, 1 if bound > 0 else -1]
    return bound


def _bound(document: Any) -> Any:
    match document:
        case [str(text)] if text == TOP_TEXT:
            return ABOVE_ALL
        case [str(text), sign] if text == INFINITY_TEXT:
            return sign * math.inf
    return document
