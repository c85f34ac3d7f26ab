"""Which tables can be read, what they require from a client, and which part of their protocol is relayed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.features import (
    FEATURES,
    active_features,
    check_readable,
    combined_protocol,
    enabled_features,
    protocol_for_clients,
)
from core.delta.model import Metadata, Protocol
from core.errors import DamagedLogError, SharingError, UnsupportedOperationError
from tests.examples import examples


def column(name: str, data_type: object = "long", **metadata: object) -> dict[str, object]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": metadata}


def table(*columns: dict[str, object], **properties: str) -> Metadata:
    schema = json.dumps({"type": "struct", "fields": columns or [column("id")]})
    configuration = {f"delta.{name}": value for name, value in properties.items()}
    return Metadata("id", schema, configuration=configuration)


def modern(*features: str) -> Protocol:
    return Protocol(3, 7, features, (*features, "appendOnly"))


def active(protocol: Protocol, metadata: Metadata, *, deletion_vectors: bool = False) -> frozenset[str]:
    return active_features(protocol, metadata, deletion_vectors=deletion_vectors)


class TestReadable:
    @pytest.mark.parametrize("protocol", [Protocol(1, 1), Protocol(1, 7), Protocol(2, 5), modern(), modern(*FEATURES)])
    def test_every_known_protocol_is_accepted(self, protocol: Protocol) -> None:
        check_readable(protocol, table())

    @pytest.mark.parametrize("feature", ["geospatial", "deletionvectors", "", "typeWidening-review"])
    def test_the_error_for_an_unknown_feature_names_it(self, feature: str) -> None:
        with pytest.raises(UnsupportedOperationError, match=f"reader feature {feature}, which"):
            check_readable(modern("v2Checkpoint", feature), table())

    @pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
    def test_a_catalog_managed_table_is_refused(self, feature: str) -> None:
        with pytest.raises(UnsupportedOperationError, match="managed by a catalog"):
            check_readable(modern(feature, "unknown"), table())

    @pytest.mark.parametrize("version", [4, 99, 2**70])
    def test_a_future_protocol_is_too_new(self, version: int) -> None:
        with pytest.raises(UnsupportedOperationError, match=rf"Delta protocol version \({version},7\) is too new"):
            check_readable(Protocol(version, 7), table())

    @pytest.mark.parametrize("version", [0, -1])
    def test_an_invalid_protocol_version_is_malformed(self, version: int) -> None:
        with pytest.raises(DamagedLogError):
            check_readable(Protocol(version, 2), table())

    @pytest.mark.parametrize(
        ("protocol", "mode"),
        [(Protocol(1, 2), "name"), (modern("deletionVectors"), "id"), (Protocol(2, 5), "by-magic")],
    )
    def test_a_column_mapping_mode_that_the_protocol_does_not_allow_is_malformed(
        self, protocol: Protocol, mode: str
    ) -> None:
        with pytest.raises(DamagedLogError):
            check_readable(protocol, table(**{"columnMapping.mode": mode}))


class TestActive:
    def test_features_that_are_only_enabled_are_not_active(self) -> None:
        properties = {"enableDeletionVectors": "true", "enableTypeWidening": "true", "columnMapping.mode": "none"}
        assert active(modern(*FEATURES), table(**properties)) == frozenset()

    @pytest.mark.parametrize("mode", ["name", "id", "NAME"])
    def test_column_mapping_is_active_if_its_mode_is_set(self, mode: str) -> None:
        for protocol in (Protocol(2, 5), modern("columnMapping")):
            assert active(protocol, table(**{"columnMapping.mode": mode})) == {"columnMapping"}

    def test_deletion_vectors_are_active_if_a_file_has_one_regardless_of_the_property(self) -> None:
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
    def test_the_schema_shows_the_other_features(self, columns: list[dict[str, object]], expected: set[str]) -> None:
        protocol = modern("timestampNtz", "variantType-preview", "variantShredding", "typeWidening", "v2Checkpoint")
        assert active(protocol, table(*columns)) == expected

    @given(depth=st.integers(1, 40), path=st.data())
    @settings(deadline=None, max_examples=examples(30))
    def test_a_type_is_found_at_any_depth(self, depth: int, path: st.DataObject) -> None:
        data_type: Any = "timestamp_ntz"
        for _ in range(depth):
            data_type = path.draw(
                st.sampled_from(
                    [
                        {"type": "array", "elementType": data_type, "containsNull": True},
                        {"type": "map", "keyType": data_type, "valueType": "long", "valueContainsNull": True},
                        {"type": "map", "keyType": "long", "valueType": data_type, "valueContainsNull": True},
                        {"type": "struct", "fields": [column("x"), column("y", data_type)]},
                    ]
                )
            )
        assert active(modern("timestampNtz"), table(column("a", data_type))) == {"timestampNtz"}

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
    @settings(deadline=None, max_examples=examples(50))
    def test_unusual_schemas_do_not_fail(self, odd: Any) -> None:
        fields = [
            column("a", {"type": "variant", "fields": odd}),
            {"name": "b", "type": {"type": odd, "elementType": odd}, "metadata": odd},
        ]
        metadata = Metadata("id", json.dumps({"type": "struct", "fields": fields}))
        assert active(modern("variantType"), metadata) == {"variantType"}


class TestRelayed:
    def test_features_neither_active_nor_enabled_are_left_out_for_readers_and_writers(self) -> None:
        protocol = modern("deletionVectors", "variantShredding", "v2Checkpoint")
        needed = enabled_features(protocol, table(enableDeletionVectors="TRUE", checkpointPolicy="classic"))
        assert protocol_for_clients(protocol, needed) == Protocol(
            3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")
        )

    def test_a_protocol_without_features_is_unchanged(self) -> None:
        for protocol in (Protocol(1, 2), Protocol(2, 5), Protocol(2, 7, (), ("columnMapping", "icebergCompatV2"))):
            assert protocol_for_clients(protocol, frozenset()) == protocol

    def test_a_covering_protocol_allows_what_two_allow(self) -> None:
        later = Protocol(3, 7, ("columnMapping",), ("columnMapping", "appendOnly"))
        assert combined_protocol([Protocol(1, 4), later]) == combined_protocol([later, Protocol(1, 4)]) == later
        both = combined_protocol([modern("deletionVectors"), later])
        assert both.reader_features == ("deletionVectors", "columnMapping")
        assert both.writer_features == ("deletionVectors", "appendOnly", "columnMapping")


def test_each_feature_that_must_be_named_cannot_be_read_as_plain_parquet() -> None:
    """Otherwise a client that names no features would be refused in delta format and served in parquet format."""
    assert not [name for name, feature in FEATURES.items() if feature.must_be_named and feature.readable_as_parquet]


@given(st.integers(-5, 10), st.integers(-5, 10), st.lists(st.text(max_size=5)), st.text(max_size=5))
@settings(deadline=None, max_examples=examples(50))
def test_any_protocol_is_read_or_refused_with_a_4xx(reader: int, writer: int, features: list[str], mode: str) -> None:
    try:
        check_readable(Protocol(reader, writer, tuple(features)), table(**{"columnMapping.mode": mode}))
    except SharingError as error:
        assert error.status == 400
