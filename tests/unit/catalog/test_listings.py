"""One set of tests for all four lists: what a page is must not depend on what is listed."""

import pytest

from core.catalog.tokens import new_token
from core.errors import InvalidParameterError, NotFoundError, UnauthenticatedError
from tests.unit.catalog.listers import LISTERS, Lister
from tests.unit.catalog.world import counted_calls, page


@pytest.fixture(params=LISTERS)
def lister(request, world) -> Lister:
    return request.param(world)


def fill(lister: Lister, *names: str) -> None:
    for name in names:
        lister.add(name)


def test_an_empty_list_is_one_page_without_a_token(lister, world):
    listing = lister.list(world.catalog(), page())
    assert (listing.items, listing.next_page_token) == ((), None)


def test_entries_come_in_a_stable_order_with_the_spelling_they_were_made_with(lister, world):
    fill(lister, "b", "C", "Äa", "A")
    listing = lister.list(world.catalog(), page())
    assert lister.names(listing) == ["A", "b", "C", "Äa"]
    assert listing.next_page_token is None


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_pages_of_any_size_give_every_entry_once_and_the_last_has_no_token(lister, world, size):
    fill(lister, "a", "b", "c", "d")
    seen, token, pages = [], None, 0
    while pages == 0 or token is not None:
        listing = lister.list(world.catalog(), page(size, token))
        seen += lister.names(listing)
        token, pages = listing.next_page_token, pages + 1
    assert seen == ["a", "b", "c", "d"]
    assert pages == -(-4 // size)


def test_a_page_of_no_entries_has_a_token_if_there_is_anything(lister, world):
    assert lister.list(world.catalog(), page(0)).next_page_token is None
    fill(lister, "a", "b")
    nothing = lister.list(world.catalog(), page(0))
    assert nothing.items == ()
    first = lister.list(world.catalog(), page(1, nothing.next_page_token))
    assert lister.names(first) == ["a"]
    still_nothing = lister.list(world.catalog(), page(0, first.next_page_token))
    assert lister.names(lister.list(world.catalog(), page(5, still_nothing.next_page_token))) == ["b"]


def test_pages_stay_right_while_entries_come_and_go(lister, world):
    fill(lister, "b", "d", "f", "h")
    first = lister.list(world.catalog(), page(2))
    lister.add("a")
    lister.add("e")
    lister.remove("d")
    lister.remove("f")
    rest = lister.list(world.catalog(), page(5, first.next_page_token))
    assert (lister.names(first), lister.names(rest)) == (["b", "d"], ["e", "h"])


def test_a_list_says_who_asked(lister, world):
    assert lister.list(world.catalog(), page()).recipient == "ann"


def test_a_page_token_is_of_no_use_to_another_recipient(lister, world):
    fill(lister, "a", "b")
    token = lister.list(world.catalog(), page(1)).next_page_token
    other = world.recipient("bob", *(share.name for share in world.admin.shares()))
    with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
        lister.list(world.catalog(), page(1, token), token=other)


def test_a_page_token_is_of_no_use_to_another_list(world):
    world.share("main", "one.a", "one.b", "two.a", "two.b")
    world.share("twin", "one.a", "one.b")
    bearer, catalog = world.recipient("ann", "main", "twin"), world.catalog()
    lists = [
        lambda asked: catalog.list_shares(bearer, asked),
        *(lambda asked, share=share: catalog.list_schemas(bearer, share, asked) for share in ("main", "twin")),
        *(lambda asked, share=share: catalog.list_all_tables(bearer, share, asked) for share in ("main", "twin")),
        *(
            lambda asked, share=share, schema=schema: catalog.list_tables(bearer, share, schema, asked)
            for share, schema in (("main", "one"), ("main", "two"), ("twin", "one"))
        ),
    ]
    tokens = [entries(page(0)).next_page_token for entries in lists]
    for own, entries in enumerate(lists):
        for number, token in enumerate(tokens):
            if number == own:
                assert entries(page(1, token)).items
            else:
                with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
                    entries(page(1, token))


def test_a_page_token_works_with_every_spelling_of_the_names(world):
    world.share("Main", "One.a", "One.b")
    bearer, catalog = world.recipient("ann", "main"), world.catalog()
    token = catalog.list_tables(bearer, "main", "one", page(1)).next_page_token
    assert [table.name for table in catalog.list_tables(bearer, "MAIN", "ONE", page(1, token)).items] == ["b"]


def test_checks_come_in_order_authentication_max_results_existence_page_token(lister, world):
    catalog, bad = world.catalog(), page("many", "bad")
    with pytest.raises(UnauthenticatedError):
        lister.list(catalog, bad, token=new_token())
    for refused in (bad, page(501, "bad")):
        with pytest.raises(InvalidParameterError, match=r"number|maxResults"):
            lister.list(catalog, refused)
    for unknown in (
        lambda asked: catalog.list_schemas(lister.token, "unknown", asked),
        lambda asked: catalog.list_all_tables(lister.token, "unknown", asked),
        lambda asked: catalog.list_tables(lister.token, "unknown", "unknown", asked),
    ):
        with pytest.raises(InvalidParameterError, match="number"):
            unknown(bad)
        with pytest.raises(NotFoundError, match="share 'unknown' not found"):
            unknown(page(1, "bad"))
    for token in ("bad", ""):
        with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
            lister.list(catalog, page(1, token))


def test_an_unknown_schema_is_told_by_the_name_that_was_asked_for(world):
    world.share("main")
    with pytest.raises(NotFoundError, match="schema 'Nope' not found"):
        world.catalog().list_tables(world.recipient("ann", "main"), "main", "Nope", page(1, "bad"))


def test_a_list_takes_two_calls_at_most(lister, world):
    fill(lister, "a", "b", "c")
    with counted_calls(world.client) as calls:
        lister.list(world.catalog(), page(2))
    assert len(calls) == 2


def test_a_list_of_more_entries_than_dynamodb_gives_at_once_is_complete(world):
    world.share("main")
    for number in range(12):
        world.admin.put_schema("main", "s")
        location = "s3://bucket/" + "x" * 100_000
        world.admin.put_table("main", "s", f"t{number:02}", location=location)
    token = world.recipient("ann", "main")
    with counted_calls(world.client) as calls:
        tables = world.catalog().list_all_tables(token, "main", page()).items
    assert [table.name for table in tables] == [f"t{number:02}" for number in range(12)]
    assert calls.count("Query") == 2


def test_tables_of_a_schema_do_not_mix_with_those_of_one_whose_name_begins_the_same(world):
    world.share("main", "one.a", "one-more.b", "one0.c", "onE_.d")
    listing = world.catalog().list_tables(world.recipient("ann", "main"), "main", "ONE", page())
    assert [table.full_name for table in listing.items] == ["main.one.a"]


def test_a_grant_of_a_share_that_is_gone_is_skipped(world):
    for name in ("a", "b", "c"):
        world.share(name)
    token = world.recipient("ann", "a", "b", "c")
    catalog = world.catalog(cache_seconds=60)
    catalog.authenticate(token)
    world.admin.remove_share("b")
    assert [share.name for share in catalog.list_shares(token, page()).items] == ["a", "c"]


def test_a_rotation_of_signing_keys_does_not_break_a_listing_on_its_way(world):
    world.share("main", "s.a", "s.b", "s.c")
    bearer = world.recipient("ann", "main")
    old_process, other_process = world.catalog(), world.catalog()
    first = old_process.list_all_tables(bearer, "main", page(1))
    world.admin.rotate_signing_keys()
    second = other_process.list_all_tables(bearer, "main", page(1, first.next_page_token))
    third = old_process.list_all_tables(bearer, "main", page(1, second.next_page_token))
    assert [listing.items[0].name for listing in (first, second, third)] == ["a", "b", "c"]
    world.admin.rotate_signing_keys()
    world.clock.seconds += 600
    with pytest.raises(InvalidParameterError, match="invalid 'nextPageToken'"):
        world.catalog().list_all_tables(bearer, "main", page(1, first.next_page_token))
