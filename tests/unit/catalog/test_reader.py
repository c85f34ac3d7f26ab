import pytest

from core.api.table_tokens import TableTokens
from core.api.tokens import SETTLING_SECONDS
from core.catalog.tokens import new_token
from core.errors import InvalidParameterError, NotFoundError, UnauthenticatedError
from tests.unit.catalog.world import DAY, counted_calls, page

ODD_NAMES = ["", " ", "..", "a/b", "nul\0", "lone\ud800", "x" * 300, "%2F", "日本", "a.b", "~", "#"]


def refusal(catalog, token) -> UnauthenticatedError:
    with pytest.raises(UnauthenticatedError) as caught:
        catalog.authenticate(token)
    return caught.value


def missing(access) -> str:
    with pytest.raises(NotFoundError) as caught:
        access.require()
    return caught.value.message


def test_a_token_leads_to_its_recipient(world):
    share_id = world.share("Sales")
    token = world.recipient("Ann", "sales")
    caller = world.catalog().authenticate(token)
    assert (caller.id, caller.name) == (world.admin.recipient("ann").id, "Ann")
    assert caller.grants == {"sales": share_id}


def test_unknown_garbled_revoked_and_expired_tokens_cannot_be_told_apart(world):
    expired = world.recipient("expired")
    world.clock.seconds += DAY
    world.admin.put_recipient("ann")
    revoked, secret = world.admin.issue_token("ann", lifetime_seconds=60)
    world.admin.revoke_token("ann", revoked.id)
    removed = world.recipient("bob")
    world.admin.remove_recipient("bob")
    errors = [refusal(world.catalog(), token) for token in (new_token(), "garbled", "", secret, expired, removed)]
    assert len({error.message for error in errors}) == 1
    assert all(error.token_was_sent for error in errors)


def test_no_token_is_refused_as_not_sent(world):
    assert not refusal(world.catalog(), None).token_was_sent


@pytest.mark.parametrize("token", [None, "", "garbled", "slc_short", "slc_" + "é" * 43])
def test_what_cannot_be_a_token_never_reaches_dynamodb(world, token):
    with counted_calls(world.client) as calls:
        refusal(world.catalog(), token)
    assert calls == []


def test_a_token_ends_with_the_second_of_its_expiry_also_when_it_is_cached(world):
    token = world.recipient("ann")
    catalog = world.catalog(cache_seconds=10 * DAY)
    world.clock.seconds += DAY - 1
    catalog.authenticate(token)
    world.clock.seconds += 1
    refusal(catalog, token)


def test_a_granted_table_is_found_by_any_spelling_and_shown_in_its_own(world):
    world.share("Sales", "Default.Trips")
    token = world.recipient("ann", "SALES")
    table = world.catalog().find_table(token, "sAlEs", "DEFAULT", "trips").require()
    assert table == world.admin.table("sales", "default", "trips")
    assert table.full_name == "Sales.Default.Trips"


def test_a_table_comes_with_the_keys_of_its_tokens_in_one_read(world):
    world.share("sales", "core.trips")
    token = world.recipient("ann", "sales")

    def tokens() -> TableTokens:
        return world.catalog().find_table(token, "sales", "core", "trips").table_tokens()

    with counted_calls(world.client) as calls:
        issued = tokens().issue_refresh(7, "", "")
    assert calls == ["BatchGetItem"]
    world.admin.rotate_signing_keys()
    assert tokens().read_refresh(issued).version == 7
    world.clock.seconds += SETTLING_SECONDS
    of_new_key = tokens().issue_refresh(8, "", "")
    world.admin.rotate_signing_keys()
    assert tokens().read_refresh(of_new_key).version == 8
    with pytest.raises(InvalidParameterError, match="Error decoding refresh token"):
        tokens().read_refresh(issued)


def test_whichever_level_is_missing_or_not_granted_the_table_does_not_exist(world):
    world.share("granted", "schema.table")
    world.share("other", "schema.table")
    token = world.recipient("ann", "granted")
    for names in ("Other/schema/table", "none/schema/table", "granted/none/table", "granted/schema/none"):
        assert missing(world.catalog().find_table(token, *names.split("/"))) == (
            f"[Share/Schema/Table] '{names}' does not exist, "
            "please contact your share provider for further information."
        )


def test_a_share_that_is_not_granted_and_one_that_does_not_exist_give_the_same_answer_by_the_same_calls(world):
    world.share("secret", "schema.table")
    token = world.recipient("ann")
    catalog = world.catalog()
    answers = []
    for share in ("secret", "absent"):
        with counted_calls(world.client) as calls:
            text = missing(catalog.find_share(token, share)).replace(share, "…")
            with pytest.raises(NotFoundError) as caught:
                catalog.list_all_tables(token, share, page())
        answers.append((text, caught.value.message.replace(share, "…"), calls))
    assert answers[0] == answers[1]
    assert answers[0][0] == "share '…' not found"


def test_a_share_is_shown_as_it_was_made(world):
    made = world.admin.put_share("Sales", display_name="All sales", comment="daily", properties={"team": "x"}).value
    token = world.recipient("ann", "sales")
    assert world.catalog().find_share(token, "SALES").require() == made


def test_a_share_made_again_under_the_same_name_is_not_open_to_those_who_read_the_old_one(world):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    stale, knows_token_only = world.catalog(cache_seconds=60), world.catalog(cache_seconds=60)
    stale.find_share(token, "sales").require()
    knows_token_only.authenticate(token)
    world.admin.remove_share("sales", cascade=True)
    world.share("sales", "schema.table")
    assert world.catalog().find_table(token, "sales", "schema", "table").table is None
    # A reader that has the old grant in its cache does not take it for one of the new share.
    assert knows_token_only.find_share(token, "sales").share is None
    assert knows_token_only.find_table(token, "sales", "schema", "table").table is None
    assert knows_token_only.list_shares(token, page()).items == ()
    # A reader that has the old share in its cache sees none of what lies below the new one.
    assert stale.find_table(token, "sales", "schema", "table").table is None
    assert stale.list_schemas(token, "sales", page()).items == ()
    assert stale.list_all_tables(token, "sales", page()).items == ()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_breaks_the_rules_is_simply_not_found(world, name):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    catalog = world.catalog()
    assert missing(catalog.find_share(token, name)) == f"share '{name}' not found"
    for names in ((name, "schema", "table"), ("sales", name, "table"), ("sales", "schema", name)):
        missing(catalog.find_table(token, *names))
    with pytest.raises(NotFoundError, match="schema"):
        catalog.list_tables(token, "sales", name, page())
    with pytest.raises(UnauthenticatedError):
        catalog.find_share(new_token(), name)


def test_one_call_finds_a_table_and_none_while_it_is_cached(world):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    catalog = world.catalog(cache_seconds=5)
    with counted_calls(world.client) as calls:
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"]
        world.clock.seconds += 4
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"]
        world.clock.seconds += 1
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"] * 2


def test_what_was_not_found_is_looked_for_again_at_once(world):
    world.share("sales")
    token = world.recipient("ann", "sales")
    catalog = world.catalog(cache_seconds=60)
    missing(catalog.find_table(token, "sales", "schema", "table"))
    world.share("sales", "schema.table")
    catalog.find_table(token, "sales", "schema", "table").require()


def test_a_revocation_works_within_the_cache_time(world):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    catalog = world.catalog(cache_seconds=5)
    catalog.find_table(token, "sales", "schema", "table").require()
    world.admin.revoke("ann", "sales")
    world.clock.seconds += 5
    assert catalog.find_table(token, "sales", "schema", "table").table is None
