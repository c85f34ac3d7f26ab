import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.api.tokens import SETTLING_SECONDS, ExpiredTokenError, InvalidTokenError, SignedTokens, SigningKey

NOW = 1_800_000_000
LIFETIME = 3600
OLD_KEY, NEW_KEY = SigningKey(b"o" * 32, 0), SigningKey(b"n" * 32, NOW)
TOKENS = SignedTokens([OLD_KEY], NOW)
SCOPE = ("tables", "recipient", "share", "schema")
LETTERS = string.ascii_letters + string.digits + "-_"

contents = st.binary(max_size=60)
scopes = st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=4).map(tuple)
fast = settings(deadline=None)


def issue(content: bytes = b"content", scope: tuple[str, ...] = SCOPE, *, tokens: SignedTokens = TOKENS) -> str:
    return tokens.issue(scope, content, lifetime_seconds=LIFETIME)


def is_invalid(token: str, scope: tuple[str, ...] = SCOPE, *, tokens: SignedTokens = TOKENS) -> bool:
    try:
        tokens.read(token, scope)
    except InvalidTokenError:
        return True
    return False


@fast
@given(scopes, contents)
def test_a_token_returns_its_content_and_is_url_safe(scope, content):
    token = issue(content, scope)
    assert TOKENS.read(token, scope) == content
    assert set(token) <= set(LETTERS)


@fast
@given(scopes, scopes, contents)
def test_a_token_of_another_scope_is_invalid(scope, other, content):
    assume(scope != other)
    assert is_invalid(issue(content, scope), other)


@fast
@given(contents, st.data())
def test_an_altered_token_is_invalid(content, data):
    token = issue(content)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(LETTERS + "+/=é ."))
    assume(token[at] != other)
    assert is_invalid(token[:at] + other + token[at + 1 :])


@fast
@given(contents, st.data())
def test_a_truncated_token_is_invalid(content, data):
    token = issue(content)
    assert is_invalid(token[: data.draw(st.integers(0, len(token) - 1))])


@fast
@given(st.text(max_size=100))
def test_any_other_text_is_invalid(text):
    assert is_invalid(text)


@pytest.mark.parametrize("suffix", ["=", "==", "\n", "A"])
def test_a_token_with_a_suffix_is_invalid(suffix):
    assert is_invalid(issue() + suffix)


def test_a_token_is_valid_until_its_expiry():
    token = issue()
    assert SignedTokens([OLD_KEY], NOW + LIFETIME - 1).read(token, SCOPE) == b"content"
    with pytest.raises(ExpiredTokenError):
        SignedTokens([OLD_KEY], NOW + LIFETIME).read(token, SCOPE)


def test_a_forged_token_is_invalid_rather_than_expired():
    assert is_invalid(issue(), tokens=SignedTokens([NEW_KEY], NOW + LIFETIME))


def test_a_token_signed_with_an_unknown_key_is_invalid():
    assert is_invalid(issue(), tokens=SignedTokens([NEW_KEY], NOW))


def test_tokens_of_the_previous_key_stay_valid_after_a_rotation():
    assert SignedTokens([NEW_KEY, OLD_KEY], NOW).read(issue(), SCOPE) == b"content"


def test_a_token_of_an_unknown_key_is_read_with_the_keys_of_a_lookup_which_then_sign():
    tokens = SignedTokens([OLD_KEY], NOW, look_up_keys=lambda: [NEW_KEY])
    token = issue(tokens=SignedTokens([NEW_KEY], NOW))
    assert tokens.read(token, SCOPE) == b"content"
    assert issue(tokens=tokens) == token


def test_keys_are_looked_up_only_for_tokens_that_no_known_key_has_signed():
    lookups = []

    def look_up_keys() -> list[SigningKey]:
        lookups.append("lookup")
        return [NEW_KEY]

    tokens = SignedTokens([OLD_KEY], NOW, look_up_keys)
    tokens.read(issue(), SCOPE)
    assert is_invalid("no token", tokens=tokens)
    assert lookups == []
    assert is_invalid(issue(scope=("other",)), tokens=tokens)
    assert lookups == ["lookup"]
    assert tokens.keys == [OLD_KEY]


def test_an_expired_token_of_an_unknown_key_is_expired():
    tokens = SignedTokens([OLD_KEY], NOW + LIFETIME, look_up_keys=lambda: [NEW_KEY])
    with pytest.raises(ExpiredTokenError):
        tokens.read(issue(tokens=SignedTokens([NEW_KEY], NOW)), SCOPE)


def test_a_new_key_signs_only_after_every_process_has_had_time_to_read_it():
    def rotated(now: float) -> str:
        return issue(tokens=SignedTokens([NEW_KEY, OLD_KEY], now))

    assert TOKENS.read(rotated(NOW + SETTLING_SECONDS - 1), SCOPE) == b"content"
    assert is_invalid(rotated(NOW + SETTLING_SECONDS))


def test_a_signing_key_does_not_show_its_secret():
    assert "ooo" not in repr(OLD_KEY)
