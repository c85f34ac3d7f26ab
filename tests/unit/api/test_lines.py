"""The lines of an answer: one JSON object each, in ASCII, whatever the log holds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from core.api.json import dumps
from core.api.lines import end_stream_line, file_line, metadata_line, plain_schema


def column(name: str, **metadata: object) -> dict[str, object]:
    return {"name": name, "type": "long", "nullable": True, "metadata": metadata}


def schema(*columns: dict[str, object]) -> str:
    return json.dumps({"type": "struct", "fields": columns})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters()), st.lists, max_leaves=5))
def test_json_is_one_ascii_line_that_reads_back_the_same(value: object) -> None:
    encoded = dumps({"value": value})
    assert encoded.isascii()
    assert len(encoded.decode().splitlines()) == 1
    assert json.loads(encoded) == {"value": value}


def test_a_schema_without_hidden_metadata_is_relayed_byte_for_byte() -> None:
    text = '{ "type":"struct",  "fields":[{"name":"a","type":"long","nullable":true,"metadata":{"comment":"é"}}]}'
    assert plain_schema(text) == text


def test_of_a_columns_metadata_only_the_comment_is_shown() -> None:
    text = schema(column("a", comment="the a", **{"delta.generationExpression": "1"}), column("b", secret=1))
    fields = json.loads(plain_schema(text))["fields"]
    assert [field["metadata"] for field in fields] == [{"comment": "the a"}, {}]


def test_metadata_leaves_out_what_the_log_does_not_say() -> None:
    line = metadata_line(
        table_id="id",
        name=None,
        description=None,
        provider="parquet",
        schema_string=schema(),
        partition_columns=[],
        configuration={},
        size=0,
        num_files=0,
    )
    assert json.loads(line)["metaData"].keys() == {
        "id", "format", "schemaString", "configuration", "partitionColumns", "size", "numFiles",
    }  # fmt: skip


def test_a_file_carries_version_and_timestamp_only_for_time_travel() -> None:
    plain = json.loads(file_line("u", "i", {"d": None}, 5, None, 99, None, None))["file"]
    assert plain == {
        "url": "u",
        "id": "i",
        "partitionValues": {"d": None},
        "size": 5,
        "expirationTimestamp": 99,
    }
    dated = json.loads(file_line("u", "i", {}, 5, "{}", 99, 3, 1234))["file"]
    assert (dated["version"], dated["timestamp"], dated["stats"]) == (3, 1234, "{}")


def test_an_answer_without_files_has_no_url_that_could_expire() -> None:
    assert end_stream_line(min_url_expiration_timestamp=None) == b'{"endStreamAction":{}}\n'
    assert end_stream_line(min_url_expiration_timestamp=7) == b'{"endStreamAction":{"minUrlExpirationTimestamp":7}}\n'
