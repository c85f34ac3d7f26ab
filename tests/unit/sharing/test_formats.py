"""The choice of a response format, from the features of a table and the capabilities of a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.requests.capabilities import DELTA, PARQUET, Capabilities
from core.delta.features import FEATURES
from core.errors import UnsupportedOperationError
from core.sharing.formats import choose_format

BOTH = frozenset({PARQUET, DELTA})
# The reader features that published clients send, in lower case like the parsed header.
PYTHON = frozenset({"deletionvectors", "columnmapping", "timestampntz"})
SPARK = frozenset(name.lower() for name in FEATURES) - {"v2checkpoint", "vacuumprotocolcheck"}
NOTHING: frozenset[str] = frozenset()

features = st.frozensets(st.sampled_from(sorted(FEATURES)))
clients = st.builds(
    Capabilities,
    formats=st.sampled_from([BOTH, frozenset({PARQUET}), frozenset({DELTA})]),
    reader_features=features.map(lambda names: frozenset(map(str.lower, names))),
)


def choose(client: frozenset[str], *active: str, enabled: tuple[str, ...] = (), formats: frozenset[str] = BOTH) -> str:
    return choose_format(Capabilities(formats, client), frozenset(active), frozenset(enabled))


def refusal(client: frozenset[str], *active: str, enabled: tuple[str, ...] = (), formats: frozenset[str] = BOTH) -> str:
    with pytest.raises(UnsupportedOperationError) as caught:
        choose(client, *active, enabled=enabled, formats=formats)
    return caught.value.message


def correct_formats(client: Capabilities, active: frozenset[str]) -> set[str]:
    """Returns the accepted formats in which the client reads the table correctly or fails with an error."""
    plain = all(FEATURES[name].readable_as_parquet for name in active)
    named = all(name.lower() in client.reader_features for name in active if FEATURES[name].must_be_named)
    return {chosen for chosen, correct in ((PARQUET, plain), (DELTA, named)) if correct} & client.formats


@given(clients, features, features)
def test_the_chosen_format_is_correct_or_the_request_is_refused(
    client: Capabilities, active: frozenset[str], enabled: frozenset[str]
) -> None:
    correct = correct_formats(client, active)
    try:
        assert choose_format(client, active, enabled) in correct
    except UnsupportedOperationError as error:
        assert not correct
        assert "responseformat=delta;readerfeatures=" in error.message


@pytest.mark.parametrize("client", [NOTHING, PYTHON, SPARK])
def test_a_table_without_active_features_is_plain_parquet_if_the_client_accepts_it(
    client: frozenset[str],
) -> None:
    assert choose(client) == PARQUET
    assert choose(client, enabled=("v2Checkpoint",)) == PARQUET
    assert choose(client, formats=frozenset({DELTA})) == DELTA


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "timestampNtz", "variantType"])
def test_clients_that_accept_both_get_delta_format_for_features_they_support(feature: str) -> None:
    assert choose(PYTHON, feature) == choose(SPARK, feature) == DELTA


def test_type_widening_is_plain_parquet_for_a_client_that_does_not_support_it() -> None:
    assert choose(PYTHON, "typeWidening-preview") == PARQUET
    assert choose(SPARK, "typeWidening-preview") == DELTA
    assert choose(PYTHON, "typeWidening-preview", "timestampNtz") == DELTA


def test_enabled_deletion_vectors_select_delta_format_if_the_client_supports_them() -> None:
    assert choose(PYTHON, enabled=("deletionVectors",)) == DELTA
    assert choose(NOTHING, enabled=("deletionVectors",)) == PARQUET


@pytest.mark.parametrize("client", [NOTHING, PYTHON, SPARK])
@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "variantType", "variantShredding"])
def test_parquet_format_refuses_features_that_it_cannot_represent_whatever_the_client_names(
    client: frozenset[str], feature: str
) -> None:
    message = refusal(client, feature, enabled=(feature,), formats=frozenset({PARQUET}))
    assert message == (
        "Unsupported Delta Table Properties: to read this table, a client must ask for "
        f"responseformat=delta;readerfeatures={feature.lower()}"
    )


def test_in_delta_format_a_client_must_name_features_that_it_could_read_incorrectly() -> None:
    for formats in (BOTH, frozenset({DELTA})):
        message = refusal(NOTHING, "columnMapping", "deletionVectors", "timestampNtz", formats=formats)
        assert message.startswith("Unsupported Delta Table Properties")
        assert message.endswith("readerfeatures=columnmapping,deletionvectors")
        assert "variantshredding" in refusal(PYTHON, "variantType", "variantShredding", formats=formats)


def test_deletion_vectors_that_remain_after_they_were_disabled_have_their_own_error() -> None:
    for formats in (BOTH, frozenset({DELTA}), frozenset({PARQUET})):
        assert refusal(NOTHING, "deletionVectors", formats=formats).startswith("Deletion Vector property disabled")
        while_enabled = refusal(NOTHING, "deletionVectors", enabled=("deletionVectors",), formats=formats)
        assert while_enabled.startswith("Unsupported Delta Table Properties")
