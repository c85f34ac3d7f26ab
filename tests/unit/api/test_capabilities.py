"""The headers that describe what a client can read."""

import pytest

from core.api.requests.capabilities import Capabilities, FileIdHash
from core.api.requests.request import Request
from core.errors import InvalidParameterError


def parse(header: str) -> Capabilities:
    return Capabilities.parse(Request("GET", headers={"delta-sharing-capabilities": header}))


def test_the_default_format_is_parquet() -> None:
    assert Capabilities.parse(Request("GET")) == Capabilities(formats=frozenset(["parquet"]))


def test_keys_and_values_ignore_case_and_spaces() -> None:
    assert parse("ResponseFormat=DELTA, Parquet ; readerFeatures=deletionVectors,columnMapping") == Capabilities(
        formats=frozenset(["delta", "parquet"]),
        reader_features=frozenset(["deletionvectors", "columnmapping"]),
    )


def test_flags_are_parsed() -> None:
    capabilities = parse("asyncquery=true;includeEndStreamAction=TRUE")
    assert capabilities.async_query
    assert capabilities.include_end_stream_action


@pytest.mark.parametrize(
    "header", ["", ";;;", "nonsense", "unknown=1", "readerfeatures=", "cdfonviews=true", "cdfonviews=a=b,c; x = y"]
)
def test_unknown_capabilities_are_ignored(header: str) -> None:
    assert parse(header) == Capabilities()


@pytest.mark.parametrize(
    "header", ["responseformat=csv", "responseformat=", "includeendstreamaction=abc", "asyncquery=1"]
)
def test_unsupported_values_are_rejected(header: str) -> None:
    with pytest.raises(InvalidParameterError):
        parse(header)


def test_unknown_formats_are_ignored_if_another_is_known() -> None:
    assert parse("responseformat=csv,delta").formats == {"delta"}


def test_the_file_id_hash_ignores_case_and_spaces() -> None:
    assert FileIdHash.parse(Request("GET", headers={"fileidhash": " Delta "})).format == "delta"
    assert FileIdHash.parse(Request("GET")).format is None


@pytest.mark.parametrize("value", ["", " ", "sha1"])
def test_an_unknown_file_id_hash_is_rejected_by_name(value: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        FileIdHash.parse(Request("GET", headers={"fileidhash": value}))
    assert caught.value.message == f"Unsupported fileidhash: '{value}'. Supported: parquet, delta"
