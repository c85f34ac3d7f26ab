"""A root survives packing and unpacking unchanged, including the types of its bounds. Damage is detected."""

import json
import math
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.index import UnusableIndexError
from core.delta.model import Metadata, Protocol, Totals
from core.index.layout.items import Place
from core.index.layout.root import FORMAT, ChunkInfo, Root
from core.pruning.schema import DataType, Field
from core.pruning.values import ABOVE_ALL
from core.pruning.zone_maps import ZoneMap
from core.storage.objects import ObjectInfo
from tests.examples import examples
from tests.unit.index.indexed_table import schema_of

TEXTS = st.text(st.characters(exclude_categories=[]))  # a string bound may end with half a surrogate pair
BOUNDS = (
    st.sampled_from([ABOVE_ALL, math.inf, -math.inf, -0.0, 0.0, 5.0, 5, True, False, "", "top", "inf"])
    | st.integers(-(10**38), 10**38)
    | st.floats(allow_nan=False)
    | TEXTS
)
FIELDS = [
    Field(("id",), DataType("long"), in_partitions=False, was_float=False),
    Field(("box", "a.b"), DataType("decimal", 38, 10), in_partitions=False, was_float=True),
    Field(("p \u2028",), DataType("string"), in_partitions=True, was_float=False),
]
TEXTS_BY_NAME = st.dictionaries(TEXTS, TEXTS, max_size=3)


def root(**changes: Any) -> Root:
    fields = {
        "version": 7,
        "tip": ObjectInfo("a/_delta_log/00000000000000000007.json", 12, 1_700_000_000_123, '"etag"'),
        "protocol": Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")),
        "metadata": Metadata("m", schema_of(id="long"), ("p",), created_time=3),
        "totals": Totals(5, 2**62, 1),
        "chunks": [ChunkInfo(Place("b", 0), 3, 100, 2**32 - 1, in_tail=False)],
        "zones": {},
        "buckets": [Place("b", 0), Place("a", 1)],
    }
    return Root(**(fields | changes))


def typed(value: Any) -> Any:
    """Adds the types, and the sign of zero, to the comparison: 5, 5.0 and True are equal but not the same."""
    return [(type(bound), str(bound) if isinstance(bound, float) else bound) for bound in value]


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.builds(ZoneMap, BOUNDS, BOUNDS, st.booleans(), st.booleans()), max_size=4))
def test_every_bound_comes_back_with_its_type(zones: list[ZoneMap]) -> None:
    unpacked = Root.unpack(root(zones=dict.fromkeys(FIELDS, zones)).pack()).zones
    assert list(unpacked) == FIELDS
    for read in unpacked.values():
        assert list(map(typed, read)) == list(map(typed, zones))


@settings(deadline=None, max_examples=examples(100))
@given(st.none() | TEXTS, TEXTS_BY_NAME, TEXTS_BY_NAME, st.lists(TEXTS).map(tuple), st.none() | st.integers())
def test_metadata_and_protocol_come_back(
    name: str | None, options: Any, configuration: Any, columns: tuple[str, ...], created: int | None
) -> None:
    metadata = Metadata("ü", '{ "a" : 1.0}', columns, name, name, "parquet", options, configuration, created)
    protocol = Protocol(3, 7, columns, ())
    written = root(metadata=metadata, protocol=protocol)
    assert Root.unpack(written.pack()) == written


def changed(content: bytes, **changes: Any) -> bytes:
    document = json.loads(zlib.decompress(content)) | changes
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1, None, str(FORMAT)])
def test_a_root_in_another_format_is_rejected(number: object) -> None:
    with pytest.raises(UnusableIndexError, match="format"):
        Root.unpack(changed(root().pack(), form=number))


@pytest.mark.parametrize(
    "change", [{"chunks": 5}, {"chunks": [[]]}, {"zones": [[1, 2]]}, {"tip": {}}, {"totals": None}]
)
def test_a_malformed_root_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(UnusableIndexError):
        Root.unpack(changed(root().pack(), **change))


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_damage_is_detected(data: st.DataObject) -> None:
    written = root(zones={field: [ZoneMap(1, 2, has_values=True, has_nulls=False)] for field in FIELDS})
    content = bytearray(written.pack())
    damage = data.draw(st.sampled_from(["a flipped bit", "a missing part", "truncated"]))
    offset = data.draw(st.integers(1, len(content) - 1))
    if damage == "a flipped bit":
        content[offset] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "truncated":
        del content[offset:]
    else:
        del content[offset : offset + data.draw(st.integers(1, 50))]
    try:
        read = Root.unpack(bytes(content))
    except UnusableIndexError:
        return
    assert read == written
