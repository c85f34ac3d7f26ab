"""In which format a table is answered, by what it needs and by what the client says it can read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.requests.capabilities import DELTA, PARQUET, Capabilities
from core.delta.features import FEATURES
from core.errors import UnsupportedOperationError
from core.sharing.formats import choose_format

BOTH = frozenset({PARQUET, DELTA})
# What the published clients say of themselves, in lower case as the header is read.
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


def right_formats(client: Capabilities, active: frozenset[str]) -> set[str]:
    """Of those that a client takes, the ones in which it reads right or is told that it cannot."""
    plain = all(FEATURES[name].plain for name in active)
    named = all(name.lower() in client.reader_features for name in active if FEATURES[name].named)
    return {chosen for chosen, right in ((PARQUET, plain), (DELTA, named)) if right} & client.formats


@given(clients, features, features)
def test_the_answer_is_right_for_the_client_or_refused(
    client: Capabilities, active: frozenset[str], enabled: frozenset[str]
) -> None:
    right = right_formats(client, active)
    try:
        assert choose_format(client, active, enabled) in right
    except UnsupportedOperationError as error:
        assert not right
        assert "responseformat=delta;readerfeatures=" in error.message


@pytest.mark.parametrize("client", [NOTHING, PYTHON, SPARK])
def test_a_table_that_needs_nothing_is_plain_parquet_for_all_who_take_it(client: frozenset[str]) -> None:
    assert choose(client) == PARQUET
    assert choose(client, enabled=("v2Checkpoint",)) == PARQUET
    assert choose(client, formats=frozenset({DELTA})) == DELTA


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "timestampNtz", "variantType"])
def test_clients_that_take_both_get_in_delta_format_what_they_know(feature: str) -> None:
    assert choose(PYTHON, feature) == choose(SPARK, feature) == DELTA


def test_widened_columns_are_plain_files_for_a_client_that_does_not_know_them() -> None:
    assert choose(PYTHON, "typeWidening-preview") == PARQUET
    assert choose(SPARK, "typeWidening-preview") == DELTA
    assert choose(PYTHON, "typeWidening-preview", "timestampNtz") == DELTA


def test_deletion_vectors_that_may_come_are_reason_enough_for_delta_format() -> None:
    assert choose(PYTHON, enabled=("deletionVectors",)) == DELTA
    assert choose(NOTHING, enabled=("deletionVectors",)) == PARQUET


@pytest.mark.parametrize("client", [NOTHING, PYTHON, SPARK])
@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "variantType", "variantShredding"])
def test_what_plain_parquet_cannot_carry_is_refused_there_whatever_the_client_claims(
    client: frozenset[str], feature: str
) -> None:
    message = refusal(client, feature, enabled=(feature,), formats=frozenset({PARQUET}))
    assert message == (
        "Unsupported Delta Table Properties: to read this table, a client must ask for "
        f"responseformat=delta;readerfeatures={feature.lower()}"
    )


def test_in_delta_format_a_client_names_what_it_would_else_read_wrong() -> None:
    for formats in (BOTH, frozenset({DELTA})):
        message = refusal(NOTHING, "columnMapping", "deletionVectors", "timestampNtz", formats=formats)
        assert message.startswith("Unsupported Delta Table Properties")
        assert message.endswith("readerfeatures=columnmapping,deletionvectors")
        assert "variantshredding" in refusal(PYTHON, "variantType", "variantShredding", formats=formats)


def test_deletion_vectors_that_stayed_when_they_were_switched_off_have_a_text_of_their_own() -> None:
    for formats in (BOTH, frozenset({DELTA}), frozenset({PARQUET})):
        assert refusal(NOTHING, "deletionVectors", formats=formats).startswith("Deletion Vector property disabled")
        switched_on = refusal(NOTHING, "deletionVectors", enabled=("deletionVectors",), formats=formats)
        assert switched_on.startswith("Unsupported Delta Table Properties")
