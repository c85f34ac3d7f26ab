import pytest

from core.api.paging import Cursor
from core.api.requests.listing import ListRequest
from core.api.requests.request import NOT_A_NUMBER, Request
from core.api.tokens import PAGE_LIFETIME_SECONDS, SignedTokens, SigningKey
from core.errors import InvalidParameterError

NOW = 1_800_000_000
KEYS = [SigningKey(b"k" * 32, 0)]


def cursor(token: str | None = None, max_results: int = 2, scope: tuple[str, ...] = ("shares",), now=NOW) -> Cursor:
    query = {"maxResults": str(max_results)} | ({} if token is None else {"pageToken": token})
    return Cursor(ListRequest.parse(Request("GET", query=query)), scope, SignedTokens(KEYS, now))


def refusal(token: str, **arguments: object) -> str:
    with pytest.raises(InvalidParameterError) as caught:
        cursor(token, **arguments)  # type: ignore[arg-type]
    return caught.value.message


def test_a_page_starts_after_the_last_entry_of_the_previous_page():
    assert cursor().position == ""
    token = cursor().next_page_token(["a", "ü", "c"])
    assert cursor(token).position == "ü"
    assert cursor(cursor(token, max_results=0).next_page_token(["c"])).position == "ü"


def test_a_page_token_is_issued_only_if_more_entries_follow():
    assert cursor().next_page_token(["a", "b"]) is None
    assert cursor().next_page_token([]) is None


def test_a_token_of_another_listing_is_invalid():
    token = cursor().next_page_token(["a", "b", "c"])
    assert refusal(token, scope=("schemas",)) == "invalid 'nextPageToken'"
    assert refusal("", scope=("shares",)) == "invalid 'nextPageToken'"


def test_the_error_for_an_expired_token_says_to_restart_the_listing():
    token = cursor().next_page_token(["a", "b", "c"])
    assert cursor(token, now=NOW + PAGE_LIFETIME_SECONDS - 1).position == "b"
    assert "restart" in refusal(token, now=NOW + PAGE_LIFETIME_SECONDS)


def max_results(text: str | None) -> int:
    return ListRequest.parse(Request("GET", query={} if text is None else {"maxResults": text})).max_results


@pytest.mark.parametrize(("text", "number"), [(None, 500), ("0", 0), ("1", 1), ("500", 500), ("007", 7)])
def test_max_results_defaults_to_500(text, number):
    assert max_results(text) == number


@pytest.mark.parametrize("text", ["-1", "501", "999999999999999999"])
def test_max_results_must_be_0_to_500(text):
    with pytest.raises(InvalidParameterError, match="Acceptable values of 'maxResults' are 0 to 500, inclusive"):
        max_results(text)


@pytest.mark.parametrize("text", ["", "abc", "1.5", "0x10", "٣", "9" * 5000])
def test_max_results_must_be_a_number(text):
    with pytest.raises(InvalidParameterError) as caught:
        max_results(text)
    assert caught.value.message == NOT_A_NUMBER
