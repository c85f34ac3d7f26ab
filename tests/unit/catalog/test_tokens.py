import pytest

from core.catalog.tokens import looks_like_token, new_token, sha256


def test_new_tokens_are_well_formed_and_unique():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(looks_like_token(token) for token in tokens)


@pytest.mark.parametrize(
    "text",
    ["", "slc_", "slc_" + "a" * 42, "slc_" + "a" * 44, "SLC_" + "a" * 43, "slc_" + "a" * 42 + "=", "slc_" + "é" * 43,
     "slc_" + "a" * 43 + "\n", "dapi" + "a" * 43, "\ud800"],
)  # fmt: skip
def test_malformed_text_does_not_look_like_a_token(text):
    assert not looks_like_token(text)


def test_a_token_is_stored_as_its_sha256():
    assert sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
