"""The root of an index: the snapshot's protocol, metadata and totals, and the places of all chunks and buckets.

It has the zone map of every indexed column for each chunk, so a query knows which chunks to read. A reader keeps the
zone maps as JSON text, a sixth of their size as Python objects, and decodes those of a column when a query needs them.
"""

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from sys import intern
from typing import Any, NamedTuple

from core.delta.index import UnusableIndexError
from core.delta.model import Metadata, Protocol, Totals
from core.index.layout.items import Place
from core.pruning.schema import DataType, Field
from core.pruning.values import ABOVE_ALL
from core.pruning.zone_maps import MAX_COLUMNS, ZoneMap, ZoneMapBatch
from core.storage.objects import ObjectInfo

# Increment it when the stored format changes. Readers do not use an index with another number.
FORMAT = 2
TOP_TEXT, INFINITY_TEXT = "top", "inf"
# Approximate memory of a chunk's entry, of a bucket's, of a decoded zone map without its bounds, and of the rest.
CHUNK_BYTES, BUCKET_BYTES, ZONE_BYTES, FIXED_BYTES = 320, 120, 100, 4000


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

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of an unpacked root, with as many decoded columns as it may keep."""
        zones = self.zones.memory_bytes if isinstance(self.zones, ZoneTexts) else 0
        zones += ZONE_BYTES * len(self.chunks) * min(len(self.zones), MAX_COLUMNS)
        places = CHUNK_BYTES * len(self.chunks) + BUCKET_BYTES * len(self.buckets)
        return FIXED_BYTES + self.metadata.memory_bytes + zones + places

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
        return zlib.compress(_dumps(document).encode())

    @classmethod
    def unpack(cls, content: bytes) -> "Root":
        try:
            document = _document(zlib.decompress(content).decode())
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
            [ChunkInfo(_place(*place), *more) for place, *more in document["chunks"]],
            ZoneTexts(document["zones"]),
            [_place(*place) for place in document["buckets"]],
        )


class ZoneTexts(Mapping[Field, Sequence[ZoneMap]]):
    """Decodes the zone maps of a column each time they are read. A query needs only one or two columns."""

    def __init__(self, texts: Mapping[Field, str]) -> None:
        self._texts = texts

    @property
    def memory_bytes(self) -> int:
        """Of the texts, and of the bounds in the largest columns: decoded, these have about the size of their text."""
        sizes = sorted(map(len, self._texts.values()))
        return sum(sizes) + sum(sizes[-MAX_COLUMNS:])

    def __getitem__(self, field: Field) -> Sequence[ZoneMap]:
        try:
            return [_zone(document) for document in json.loads(self._texts[field])]
        except (ValueError, TypeError) as error:
            raise UnusableIndexError("its root is damaged") from error

    def __contains__(self, field: object) -> bool:
        return field in self._texts

    def __iter__(self) -> Iterator[Field]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _document(text: str) -> dict[str, Any]:
    """Decodes a root except for its zone maps, which stay text: {field: text}.

    Finds the end of each column's text by decoding it, so only one column is ever in memory as objects.
    """
    document: dict[str, Any] = {}

    def take_member(at: int) -> int:
        name, at = DECODE(text, at)
        at = _expect(text, at, ":")
        document[name], at = _zone_texts(text, at) if name == "zones" else DECODE(text, at)
        return at

    if _take_all(text, 0, "{", "}", take_member) != len(text):
        raise ValueError("text after the document")
    return document


def _zone_texts(text: str, at: int) -> tuple[dict[Field, str], int]:
    texts: dict[Field, str] = {}

    def take_column(at: int) -> int:
        field, begin = DECODE(text, _expect(text, at, "["))
        begin = _expect(text, begin, ",")
        _, end = DECODE(text, begin)
        texts[_field(field)] = text[begin:end]
        return _expect(text, end, "]")

    return texts, _take_all(text, at, "[", "]", take_column)


def _take_all(text: str, at: int, first: str, last: str, take: Callable[[int], int]) -> int:
    """Takes the members of an object or a list. `take` returns the end of the member that begins at a position."""
    at = _expect(text, at, first)
    while not text.startswith(last, at):
        at = take(at)
        if not text.startswith(last, at):
            at = _expect(text, at, ",")
    return at + 1


def _expect(text: str, at: int, what: str) -> int:
    if not text.startswith(what, at):
        raise ValueError(f"no {what} at {at}")
    return at + len(what)


# Decodes the JSON value at a position, and returns it with the position of its end.
DECODE: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode


def _dumps(document: Any) -> str:
    """Without spaces: `_document` expects none."""
    return json.dumps(document, separators=(",", ":"))


def _place(build: str, number: int) -> Place:
    """Shares the name of the build between places, of which there are thousands."""
    return Place(intern(build), number)


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
