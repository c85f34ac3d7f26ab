"""Which tables are read at all, what they need of a client, and what of their protocol is relayed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.features import (
    FEATURES,
    active_features,
    check_readable,
    covering,
    enabled_features,
    relayed,
)
from core.delta.model import Metadata, Protocol
from core.errors import MalformedRequestError, SharingError, UnsupportedOperationError
from tests.examples import examples


def column(name: str, kind: object = "long", **metadata: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def table(*columns: dict[str, object], partitioned_by: tuple[str, ...] = (), **properties: str) -> Metadata:
    schema = json.dumps({"type": "struct", "fields": columns or [column("id")]})
    configuration = {f"delta.{name}": value for name, value in properties.items()}
    return Metadata("id", schema, partitioned_by, configuration=configuration)


def modern(*features: str) -> Protocol:
    return Protocol(3, 7, features, (*features, "appendOnly"))


def active(protocol: Protocol, metadata: Metadata, *, deletion_vectors: bool = False) -> frozenset[str]:
    return active_features(protocol, metadata, deletion_vectors=deletion_vectors)


class TestReadable:
    @pytest.mark.parametrize("protocol", [Protocol(1, 1), Protocol(1, 7), Protocol(2, 5), modern(), modern(*FEATURES)])
    def test_every_known_protocol_is(self, protocol: Protocol) -> None:
        check_readable(protocol, table())

    @pytest.mark.parametrize("feature", ["geospatial", "deletionvectors", "", "typeWidening-review"])
    def test_an_unknown_feature_is_refused_by_name(self, feature: str) -> None:
        with pytest.raises(UnsupportedOperationError, match=f"reader feature {feature}, which"):
            check_readable(modern("v2Checkpoint", feature), table())

    @pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
    def test_a_table_that_a_catalog_manages_is_refused_for_that(self, feature: str) -> None:
        with pytest.raises(UnsupportedOperationError, match="managed by a catalog"):
            check_readable(modern(feature, "unknown"), table())

    @pytest.mark.parametrize("version", [4, 99, 2**70])
    def test_a_protocol_to_come_is_too_new(self, version: int) -> None:
        with pytest.raises(UnsupportedOperationError, match=rf"Delta protocol version \({version},7\) is too new"):
            check_readable(Protocol(version, 7), table())

    @pytest.mark.parametrize("version", [0, -1])
    def test_a_protocol_that_never_was_is_malformed(self, version: int) -> None:
        with pytest.raises(MalformedRequestError):
            check_readable(Protocol(version, 2), table())

    @pytest.mark.parametrize(
        ("protocol", "mode"),
        [(Protocol(1, 2), "name"), (modern("deletionVectors"), "id"), (Protocol(2, 5), "by-magic")],
    )
    def test_column_mapping_must_be_one_that_the_protocol_allows(self, protocol: Protocol, mode: str) -> None:
        with pytest.raises(MalformedRequestError):
            check_readable(protocol, table(**{"columnMapping.mode": mode}))


class TestActive:
    def test_a_table_of_reader_version_three_may_use_nothing_of_it(self) -> None:
        properties = {"enableDeletionVectors": "true", "enableTypeWidening": "true", "columnMapping.mode": "none"}
        assert active(modern(*FEATURES), table(**properties)) == frozenset()

    @pytest.mark.parametrize("mode", ["name", "id", "NAME"])
    def test_column_mapping_is_where_its_mode_is_on(self, mode: str) -> None:
        for protocol in (Protocol(2, 5), modern("columnMapping")):
            assert active(protocol, table(**{"columnMapping.mode": mode})) == {"columnMapping"}

    def test_deletion_vectors_are_where_a_file_has_one_whatever_the_property_says(self) -> None:
        metadata = table(enableDeletionVectors="false")
        assert active(modern("deletionVectors"), metadata, deletion_vectors=True) == {"deletionVectors"}

    @pytest.mark.parametrize(
        ("columns", "expected"),
        [
            ([column("t", "timestamp_ntz")], {"timestampNtz"}),
            ([column("v", "variant")], {"variantType-preview", "variantShredding"}),
            ([column("a", **{"delta.typeChanges": []})], {"typeWidening"}),
            ([column("timestamp_ntz"), column("variant", comment="delta.typeChanges")], set()),
            ([column("a", "string", comment="timestamp_ntz", note={"variant": "variant"})], set()),
        ],
    )
    def test_the_schema_tells_of_the_others(self, columns: list[dict[str, object]], expected: set[str]) -> None:
        protocol = modern("timestampNtz", "variantType-preview", "variantShredding", "typeWidening", "v2Checkpoint")
        assert active(protocol, table(*columns)) == expected

    @given(depth=st.integers(1, 40), path=st.data())
    @settings(deadline=None, max_examples=examples(30))
    def test_a_type_shows_at_any_depth(self, depth: int, path: st.DataObject) -> None:
        kind: Any = "timestamp_ntz"
        for _ in range(depth):
            kind = path.draw(
                st.sampled_from(
                    [
                        {"type": "array", "elementType": kind, "containsNull": True},
                        {"type": "map", "keyType": kind, "valueType": "long", "valueContainsNull": True},
                        {"type": "map", "keyType": "long", "valueType": kind, "valueContainsNull": True},
                        {"type": "struct", "fields": [column("x"), column("y", kind)]},
                    ]
                )
            )
        assert active(modern("timestampNtz"), table(column("a", kind))) == {"timestampNtz"}

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
    @settings(deadline=None, max_examples=examples(50))
    def test_odd_schemas_are_no_failure(self, odd: Any) -> None:
        fields = [
            column("a", {"type": "variant", "fields": odd}),
            {"name": "b", "type": {"type": odd, "elementType": odd}, "metadata": odd},
        ]
        metadata = Metadata("id", json.dumps({"type": "struct", "fields": fields}))
        assert active(modern("variantType"), metadata) == {"variantType"}


class TestRelayed:
    def test_what_is_neither_active_nor_enabled_is_left_out_on_both_sides(self) -> None:
        protocol = modern("deletionVectors", "variantShredding", "v2Checkpoint")
        needed = enabled_features(protocol, table(enableDeletionVectors="TRUE", checkpointPolicy="classic"))
        assert relayed(protocol, needed) == Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly"))

    def test_a_protocol_without_features_stays_as_it_is(self) -> None:
        for protocol in (Protocol(1, 2), Protocol(2, 5), Protocol(2, 7, (), ("columnMapping", "icebergCompatV2"))):
            assert relayed(protocol, frozenset()) == protocol

    def test_one_protocol_covers_what_two_allow(self) -> None:
        later = Protocol(3, 7, ("columnMapping",), ("columnMapping", "appendOnly"))
        assert covering([Protocol(1, 4), later]) == covering([later, Protocol(1, 4)]) == later
        both = covering([modern("deletionVectors"), later])
        assert both.reader_features == ("deletionVectors", "columnMapping")
        assert both.writer_features == ("deletionVectors", "appendOnly", "columnMapping")


def test_each_feature_that_must_be_named_cannot_be_read_as_plain_parquet() -> None:
    """Else a client in parquet format, which names none, would be refused in one format and served in the other."""
    assert not [name for name, feature in FEATURES.items() if feature.named and feature.plain]


@given(st.integers(-5, 10), st.integers(-5, 10), st.lists(st.text(max_size=5)), st.text(max_size=5))
@settings(deadline=None, max_examples=examples(50))
def test_any_protocol_is_read_or_refused_with_a_4xx(reader: int, writer: int, features: list[str], mode: str) -> None:
    try:
        check_readable(Protocol(reader, writer, tuple(features)), table(**{"columnMapping.mode": mode}))
    except SharingError as error:
        assert error.status == 400
