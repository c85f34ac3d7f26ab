"""The headers in which a client says what it can read."""

import pytest

from core.api.capabilities import Capabilities, file_id_hash
from core.errors import InvalidParameterError


def parse(header: str) -> Capabilities:
    return Capabilities.parse({"delta-sharing-capabilities": header})


def test_without_the_header_a_client_reads_parquet() -> None:
    assert Capabilities.parse({}) == Capabilities(formats=frozenset(["parquet"]))


def test_keys_and_values_are_case_insensitive_and_blanks_do_not_matter() -> None:
    assert parse("ResponseFormat=DELTA, Parquet ; readerFeatures=deletionVectors,columnMapping") == Capabilities(
        formats=frozenset(["delta", "parquet"]),
        reader_features=frozenset(["deletionvectors", "columnmapping"]),
    )


def test_flags_are_read() -> None:
    capabilities = parse("asyncquery=true;includeEndStreamAction=TRUE")
    assert capabilities.async_query
    assert capabilities.include_end_stream_action


@pytest.mark.parametrize("header", ["", ";;;", "nonsense", "unknown=1", "readerfeatures="])
def test_what_is_not_understood_is_passed_over(header: str) -> None:
    assert parse(header) == Capabilities()


@pytest.mark.parametrize(
    "header", ["responseformat=csv", "responseformat=", "includeendstreamaction=abc", "asyncquery=1"]
)
def test_what_cannot_be_served_is_refused(header: str) -> None:
    with pytest.raises(InvalidParameterError):
        parse(header)


def test_of_several_formats_the_known_ones_count() -> None:
    assert parse("responseformat=csv,delta").formats == {"delta"}


def test_the_file_id_hash_is_trimmed_and_lowered() -> None:
    assert file_id_hash({"fileidhash": " Delta "}) == "delta"
    assert file_id_hash({}) is None


@pytest.mark.parametrize("value", ["", " ", "sha1"])
def test_another_file_id_hash_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        file_id_hash({"fileidhash": value})
    assert caught.value.message == f"Unsupported fileidhash: '{value}'. Supported: parquet, delta"
