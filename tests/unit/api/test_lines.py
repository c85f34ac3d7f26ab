"""Each line of an answer is one JSON object in ASCII, whatever the log contains."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.api import lines
from core.api.json import dumps

ACTION: dict[str, Any] = {
    "id": "11111111-2222-3333-4444-555555555555",
    "format": {"provider": "parquet", "options": {"a": "b"}},
    "schemaString": '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{"x":1}}]}',
    "partitionColumns": ("a",),
    "configuration": {"delta.appendOnly": "true"},
}


def column(name: str, **metadata: object) -> dict[str, object]:
    return {"name": name, "type": "long", "nullable": True, "metadata": metadata}


def schema(*columns: dict[str, object]) -> str:
    return json.dumps({"type": "struct", "fields": columns})


def content(line: bytes, kind: str) -> Any:
    assert line.endswith(b"\n")
    document = json.loads(line)
    assert list(document) == [kind]
    return document[kind]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters()), st.lists, max_leaves=5))
@settings(deadline=None)
def test_json_is_one_ascii_line_that_reads_back_the_same(value: object) -> None:
    encoded = dumps({"value": value})
    assert encoded.isascii()
    assert len(encoded.decode().splitlines()) == 1
    assert json.loads(encoded) == {"value": value}


class TestMetadata:
    def test_parquet_format_hides_properties_options_and_column_metadata(self) -> None:
        line = lines.parquet_metadata_line(ACTION, configuration={}, extra={"size": 5, "numFiles": 1})
        assert content(line, "metaData") == {
            "id": ACTION["id"],
            "format": {"provider": "parquet"},
            "schemaString": lines.plain_schema(ACTION["schemaString"]),
            "partitionColumns": ["a"],
            "configuration": {},
            "size": 5,
            "numFiles": 1,
        }

    def test_delta_format_wraps_the_unchanged_action(self) -> None:
        line = lines.delta_metadata_line(ACTION, extra={"version": 3, "size": 5})
        wrapped = ACTION | {"partitionColumns": ["a"]}
        assert content(line, "metaData") == {"version": 3, "size": 5, "deltaMetadata": wrapped}

    def test_both_formats_contain_name_and_description(self) -> None:
        action = ACTION | {"name": "n", "description": "d\u2028"}
        plain = content(lines.parquet_metadata_line(action, configuration={}, extra={}), "metaData")
        wrapped = content(lines.delta_metadata_line(action, extra={}), "metaData")["deltaMetadata"]
        assert (plain["name"], plain["description"]) == (wrapped["name"], wrapped["description"]) == ("n", "d\u2028")

    def test_a_schema_without_hidden_metadata_is_relayed_byte_for_byte(self) -> None:
        text = '{ "type":"struct",  "fields":[{"name":"a","type":"long","nullable":true,"metadata":{"comment":"é"}}]}'
        assert lines.plain_schema(text) == text

    def test_only_the_comment_of_a_columns_metadata_is_shown(self) -> None:
        text = schema(column("a", comment="the a", **{"delta.generationExpression": "1"}), column("b", secret=1))
        fields = json.loads(lines.plain_schema(text))["fields"]
        assert [field["metadata"] for field in fields] == [{"comment": "the a"}, {}]

    def test_missing_or_invalid_column_metadata_becomes_empty(self) -> None:
        text = schema({"name": "a", "type": "long"}, column("b") | {"metadata": 5}, column("c") | {"metadata": None})
        fields = json.loads(lines.plain_schema(text))["fields"]
        assert [field["metadata"] for field in fields] == [{}, {}, {}]


class TestProtocol:
    def test_feature_lists_appear_only_at_the_versions_that_require_them(self) -> None:
        def protocol(*versions: int) -> dict[str, Any]:
            return content(lines.delta_protocol_line(*versions, ("r",), ("w",)), "protocol")["deltaProtocol"]

        assert protocol(1, 2) == {"minReaderVersion": 1, "minWriterVersion": 2}
        assert protocol(2, 7) == {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["w"]}
        assert protocol(3, 7).keys() == {"minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"}

    def test_the_version_is_included_if_given(self) -> None:
        line = lines.delta_protocol_line(1, 2, (), (), version=4)
        assert content(line, "protocol")["version"] == 4


def test_the_end_of_a_stream_contains_only_fields_with_a_value() -> None:
    def ended(refresh: str | None, page: str | None, expires_at: int | None) -> dict[str, Any]:
        line = lines.end_stream_line(
            refresh_token=refresh, next_page_token=page, min_url_expiration_timestamp=expires_at
        )
        return content(line, "endStreamAction")

    assert ended(None, None, None) == {}
    assert ended("r", None, None) == {"refreshToken": "r"}
    assert ended(None, "p", 7) == {"nextPageToken": "p", "minUrlExpirationTimestamp": 7}
