import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.api.paging import (
    LIFETIME_SECONDS,
    SETTLING_SECONDS,
    Page,
    PageTokens,
    SigningKey,
)
from core.api.request import NOT_A_NUMBER, Request
from core.errors import InvalidParameterError

NOW = 1_800_000_000
OLD_KEY = SigningKey(b"o" * 32, NOW - 10 * LIFETIME_SECONDS)
TOKENS = PageTokens([OLD_KEY])
SCOPE = ("tables", "recipient", "share", "schema")
INVALID = "invalid 'nextPageToken'"

positions = st.text(st.characters(codec="utf-8"), max_size=60)
scopes = st.lists(positions, max_size=4).map(tuple)


def refusal(token: str, scope=SCOPE, *, tokens=TOKENS, now=NOW) -> str:
    with pytest.raises(InvalidParameterError) as caught:
        tokens.read(token, scope, now)
    return caught.value.message


@settings(deadline=None)
@given(scopes, positions)
def test_a_token_gives_back_its_position_and_needs_no_escaping_in_a_url(scope, position):
    token = TOKENS.issue(scope, position, NOW)
    assert TOKENS.read(token, scope, NOW) == position
    assert set(token) <= set(string.ascii_letters + string.digits + "-_")


@settings(deadline=None)
@given(scopes, scopes, positions)
def test_a_token_of_another_listing_is_invalid(scope, other, position):
    assume(scope != other)
    assert refusal(TOKENS.issue(scope, position, NOW), other) == INVALID


@settings(deadline=None)
@given(positions, st.data())
def test_a_token_that_was_altered_anywhere_is_invalid(position, data):
    token = TOKENS.issue(SCOPE, position, NOW)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(string.ascii_letters + string.digits + "-_+/=é ."))
    assume(token[at] != other)
    assert refusal(token[:at] + other + token[at + 1 :]) == INVALID


@settings(deadline=None)
@given(positions, st.data())
def test_a_token_that_was_cut_is_invalid(position, data):
    token = TOKENS.issue(SCOPE, position, NOW)
    assert refusal(token[: data.draw(st.integers(0, len(token) - 1))]) == INVALID


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_other_text_is_invalid(text):
    assert refusal(text) == INVALID


@pytest.mark.parametrize("suffix", ["=", "==", "\n", "A"])
def test_a_token_with_something_appended_is_invalid(suffix):
    assert refusal(TOKENS.issue(SCOPE, "position", NOW) + suffix) == INVALID


def test_an_expired_token_says_that_the_listing_must_be_restarted():
    token = TOKENS.issue(SCOPE, "position", NOW)
    assert TOKENS.read(token, SCOPE, NOW + LIFETIME_SECONDS - 1) == "position"
    assert "restart" in refusal(token, now=NOW + LIFETIME_SECONDS)


def test_a_token_of_a_key_that_is_not_known_is_invalid():
    assert refusal(TOKENS.issue(SCOPE, "p", NOW), tokens=PageTokens([SigningKey(b"n" * 32, 0)])) == INVALID


def test_after_a_rotation_tokens_of_the_key_before_stay_good():
    rotated = PageTokens([SigningKey(b"n" * 32, NOW), OLD_KEY])
    assert rotated.read(TOKENS.issue(SCOPE, "p", NOW), SCOPE, NOW) == "p"


def test_a_new_key_signs_only_once_every_process_can_know_it():
    rotated = PageTokens([SigningKey(b"n" * 32, NOW), OLD_KEY])
    known_to_old_processes = rotated.issue(SCOPE, "p", NOW + SETTLING_SECONDS - 1)
    assert TOKENS.read(known_to_old_processes, SCOPE, NOW) == "p"
    assert refusal(rotated.issue(SCOPE, "p", NOW + SETTLING_SECONDS)) == INVALID


def test_a_signing_key_does_not_show_its_secret():
    assert "ooo" not in repr(OLD_KEY)


def max_results(text: str | None) -> int:
    return Page(Request("GET", query={} if text is None else {"maxResults": text})).max_results


@pytest.mark.parametrize(("text", "number"), [(None, 500), ("0", 0), ("1", 1), ("500", 500), ("007", 7)])
def test_max_results_is_0_to_500_and_500_by_default(text, number):
    assert max_results(text) == number


@pytest.mark.parametrize("text", ["-1", "501", "999999999999999999"])
def test_max_results_out_of_range_is_refused_with_the_range(text):
    with pytest.raises(InvalidParameterError, match="Acceptable values of 'maxResults' are 0 to 500, inclusive"):
        max_results(text)


@pytest.mark.parametrize("text", ["", "abc", "1.5", "0x10", "٣", "9" * 5000])
def test_max_results_that_is_no_number_is_refused(text):
    with pytest.raises(InvalidParameterError) as caught:
        max_results(text)
    assert caught.value.message == NOT_A_NUMBER
