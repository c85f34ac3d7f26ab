"""Paging tests that run for all four listings."""

import pytest

from core.catalog.tokens import new_token
from core.errors import InvalidParameterError, NotFoundError, UnauthenticatedError
from tests.unit.catalog.environment import counted_calls, page
from tests.unit.catalog.listers import LISTERS, Lister


@pytest.fixture(params=LISTERS)
def lister(request, env) -> Lister:
    return request.param(env)


def fill(lister: Lister, *names: str) -> None:
    for name in names:
        lister.add(name)


def test_an_empty_listing_is_one_page_without_a_token(lister, env):
    listing = lister.list(env.catalog(), page())
    assert (listing.items, listing.next_page_token) == ((), None)


def test_entries_are_sorted_and_keep_their_original_spelling(lister, env):
    fill(lister, "b", "C", "Äa", "A")
    listing = lister.list(env.catalog(), page())
    assert lister.names(listing) == ["A", "b", "C", "Äa"]
    assert listing.next_page_token is None


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_pages_of_any_size_list_every_entry_once_and_the_last_has_no_token(lister, env, size):
    fill(lister, "a", "b", "c", "d")
    seen, token, pages = [], None, 0
    while pages == 0 or token is not None:
        listing = lister.list(env.catalog(), page(size, token))
        seen += lister.names(listing)
        token, pages = listing.next_page_token, pages + 1
    assert seen == ["a", "b", "c", "d"]
    assert pages == -(-4 // size)


def test_a_page_of_size_zero_has_a_token_if_there_are_entries(lister, env):
    assert lister.list(env.catalog(), page(0)).next_page_token is None
    fill(lister, "a", "b")
    nothing = lister.list(env.catalog(), page(0))
    assert nothing.items == ()
    first = lister.list(env.catalog(), page(1, nothing.next_page_token))
    assert lister.names(first) == ["a"]
    still_nothing = lister.list(env.catalog(), page(0, first.next_page_token))
    assert lister.names(lister.list(env.catalog(), page(5, still_nothing.next_page_token))) == ["b"]


def test_pages_stay_correct_while_entries_are_added_and_removed(lister, env):
    fill(lister, "b", "d", "f", "h")
    first = lister.list(env.catalog(), page(2))
    lister.add("a")
    lister.add("e")
    lister.remove("d")
    lister.remove("f")
    rest = lister.list(env.catalog(), page(5, first.next_page_token))
    assert (lister.names(first), lister.names(rest)) == (["b", "d"], ["e", "h"])


def test_a_listing_names_its_recipient(lister, env):
    callers = []
    lister.list(env.catalog(), page(), on_caller=callers.append)
    assert [caller.name for caller in callers] == ["ann"]


def test_a_page_token_is_invalid_for_another_recipient(lister, env):
    fill(lister, "a", "b")
    token = lister.list(env.catalog(), page(1)).next_page_token
    other = env.recipient("bob", *(share.name for share in env.admin.shares()))
    with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
        lister.list(env.catalog(), page(1, token), token=other)


def test_a_page_token_is_invalid_for_another_listing(env):
    env.share("main", "one.a", "one.b", "two.a", "two.b")
    env.share("twin", "one.a", "one.b")
    bearer, catalog = env.recipient("ann", "main", "twin"), env.catalog()
    lists = [
        lambda request: catalog.list_shares(bearer, request),
        *(lambda request, share=share: catalog.list_schemas(bearer, share, request) for share in ("main", "twin")),
        *(lambda request, share=share: catalog.list_all_tables(bearer, share, request) for share in ("main", "twin")),
        *(
            lambda request, share=share, schema=schema: catalog.list_tables(bearer, share, schema, request)
            for share, schema in (("main", "one"), ("main", "two"), ("twin", "one"))
        ),
    ]
    tokens = [entries(page(0)).next_page_token for entries in lists]
    for position, entries in enumerate(lists):
        for number, token in enumerate(tokens):
            if number == position:
                assert entries(page(1, token)).items
            else:
                with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
                    entries(page(1, token))


def test_a_page_token_works_with_every_spelling_of_the_names(env):
    env.share("Main", "One.a", "One.b")
    bearer, catalog = env.recipient("ann", "main"), env.catalog()
    token = catalog.list_tables(bearer, "main", "one", page(1)).next_page_token
    assert [table.name for table in catalog.list_tables(bearer, "MAIN", "ONE", page(1, token)).items] == ["b"]


def test_errors_are_reported_in_order_authentication_max_results_existence_page_token(lister, env):
    catalog, invalid = env.catalog(), page("many", "bad")
    with pytest.raises(UnauthenticatedError):
        lister.list(catalog, invalid, token=new_token())
    for bad_max_results in (invalid, page(501, "bad")):
        with pytest.raises(InvalidParameterError, match=r"number|maxResults"):
            lister.list(catalog, bad_max_results)
    for unknown in (
        lambda request: catalog.list_schemas(lister.token, "unknown", request),
        lambda request: catalog.list_all_tables(lister.token, "unknown", request),
        lambda request: catalog.list_tables(lister.token, "unknown", "unknown", request),
    ):
        with pytest.raises(InvalidParameterError, match="number"):
            unknown(invalid)
        with pytest.raises(NotFoundError, match="share 'unknown' not found"):
            unknown(page(1, "bad"))
    for token in ("bad", ""):
        with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
            lister.list(catalog, page(1, token))


def test_an_unknown_schema_is_reported_with_the_requested_name(env):
    env.share("main")
    with pytest.raises(NotFoundError, match="schema 'Nope' not found"):
        env.catalog().list_tables(env.recipient("ann", "main"), "main", "Nope", page(1, "bad"))


def test_a_listing_takes_at_most_two_calls(lister, env):
    fill(lister, "a", "b", "c")
    with counted_calls(env.client) as calls:
        lister.list(env.catalog(), page(2))
    assert len(calls) == 2


def test_a_listing_longer_than_a_dynamodb_page_is_complete(env):
    env.share("main")
    for number in range(12):
        env.admin.put_schema("main", "s")
        location = "s3://bucket/" + "x" * 100_000
        env.admin.put_table("main", "s", f"t{number:02}", location=location)
    token = env.recipient("ann", "main")
    with counted_calls(env.client) as calls:
        tables = env.catalog().list_all_tables(token, "main", page()).items
    assert [table.name for table in tables] == [f"t{number:02}" for number in range(12)]
    assert calls.count("Query") == 2


def test_tables_of_a_schema_exclude_those_of_a_schema_with_the_same_prefix(env):
    env.share("main", "one.a", "one-more.b", "one0.c", "onE_.d")
    listing = env.catalog().list_tables(env.recipient("ann", "main"), "main", "ONE", page())
    assert [table.full_name for table in listing.items] == ["main.one.a"]


def test_a_grant_of_a_removed_share_is_skipped(env):
    for name in ("a", "b", "c"):
        env.share(name)
    token = env.recipient("ann", "a", "b", "c")
    catalog = env.catalog(cache_seconds=60)
    catalog.authenticate(token)
    env.admin.remove_share("b")
    assert [share.name for share in catalog.list_shares(token, page()).items] == ["a", "c"]


def test_a_rotation_of_signing_keys_does_not_break_a_listing_in_progress(env):
    env.share("main", "s.a", "s.b", "s.c")
    bearer = env.recipient("ann", "main")
    old_process, other_process = env.catalog(), env.catalog()
    first = old_process.list_all_tables(bearer, "main", page(1))
    env.admin.rotate_signing_keys()
    second = other_process.list_all_tables(bearer, "main", page(1, first.next_page_token))
    third = old_process.list_all_tables(bearer, "main", page(1, second.next_page_token))
    assert [listing.items[0].name for listing in (first, second, third)] == ["a", "b", "c"]
    env.admin.rotate_signing_keys()
    env.clock.seconds += 600
    with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
        env.catalog().list_all_tables(bearer, "main", page(1, first.next_page_token))
