from fnmatch import fnmatchcase

import pytest

from core.api.table_tokens import TableTokens
from core.api.tokens import SETTLING_SECONDS
from core.catalog.items import READ_BY_FUNCTIONS
from core.catalog.tokens import new_token
from core.errors import InvalidParameterError, NotFoundError, UnauthenticatedError
from tests.unit.catalog.environment import DAY, counted_calls, page, partitions_read

ODD_NAMES = ["", " ", "..", "a/b", "nul\0", "lone\ud800", "x" * 300, "%2F", "日本", "a.b", "~", "#"]


def refusal(catalog, token) -> UnauthenticatedError:
    with pytest.raises(UnauthenticatedError) as caught:
        catalog.authenticate(token)
    return caught.value


def missing(access) -> str:
    with pytest.raises(NotFoundError) as caught:
        access.require()
    return caught.value.message


def test_a_token_identifies_its_recipient(env):
    share_id = env.share("Sales")
    token = env.recipient("Ann", "sales")
    caller = env.catalog().authenticate(token)
    assert (caller.id, caller.name) == (env.admin.recipient("ann").id, "Ann")
    assert caller.grants == {"sales": share_id}


def test_unknown_malformed_revoked_and_expired_tokens_get_the_same_error(env):
    expired = env.recipient("expired")
    env.clock.seconds += DAY
    env.admin.put_recipient("ann")
    revoked, secret = env.admin.issue_token("ann", lifetime_seconds=60)
    env.admin.revoke_token("ann", revoked.id)
    removed = env.recipient("bob")
    env.admin.remove_recipient("bob")
    errors = [refusal(env.catalog(), token) for token in (new_token(), "garbled", "", secret, expired, removed)]
    assert len({error.message for error in errors}) == 1
    assert all(error.token_was_sent for error in errors)


def test_a_missing_token_is_reported_as_not_sent(env):
    assert not refusal(env.catalog(), None).token_was_sent


@pytest.mark.parametrize("token", [None, "", "garbled", "slc_short", "slc_" + "é" * 43])
def test_a_malformed_token_does_not_reach_dynamodb(env, token):
    with counted_calls(env.client) as calls:
        refusal(env.catalog(), token)
    assert calls == []


def test_a_cached_token_expires_on_time(env):
    token = env.recipient("ann")
    catalog = env.catalog(cache_seconds=10 * DAY)
    env.clock.seconds += DAY - 1
    catalog.authenticate(token)
    env.clock.seconds += 1
    refusal(catalog, token)


def test_a_granted_table_is_found_by_any_spelling_and_returns_the_stored_one(env):
    env.share("Sales", "Default.Trips")
    token = env.recipient("ann", "SALES")
    table = env.catalog().find_table(token, "sAlEs", "DEFAULT", "trips").require()
    assert table == env.admin.table("sales", "default", "trips")
    assert table.full_name == "Sales.Default.Trips"


def test_a_table_and_its_signing_keys_are_read_in_one_call(env):
    env.share("sales", "core.trips")
    token = env.recipient("ann", "sales")

    def tokens() -> TableTokens:
        return env.catalog().find_table(token, "sales", "core", "trips").table_tokens()

    with counted_calls(env.client) as calls:
        issued = tokens().issue_refresh(7, "", "")
    assert calls == ["BatchGetItem"]
    env.admin.rotate_signing_keys()
    assert tokens().read_refresh(issued).version == 7
    env.clock.seconds += SETTLING_SECONDS
    issued_with_new_key = tokens().issue_refresh(8, "", "")
    env.admin.rotate_signing_keys()
    assert tokens().read_refresh(issued_with_new_key).version == 8
    with pytest.raises(InvalidParameterError, match="Error decoding refresh token"):
        tokens().read_refresh(issued)


def test_a_table_is_not_found_if_any_level_is_missing_or_not_granted(env):
    env.share("granted", "schema.table")
    env.share("other", "schema.table")
    token = env.recipient("ann", "granted")
    for names in ("Other/schema/table", "none/schema/table", "granted/none/table", "granted/schema/none"):
        assert missing(env.catalog().find_table(token, *names.split("/"))) == (
            f"[Share/Schema/Table] '{names}' does not exist, "
            "please contact your share provider for further information."
        )


def test_a_share_that_is_not_granted_is_indistinguishable_from_a_missing_one(env):
    env.share("secret", "schema.table")
    token = env.recipient("ann")
    catalog = env.catalog()
    answers = []
    for share in ("secret", "absent"):
        with counted_calls(env.client) as calls:
            text = missing(catalog.find_share(token, share)).replace(share, "…")
            with pytest.raises(NotFoundError) as caught:
                catalog.list_all_tables(token, share, page())
        answers.append((text, caught.value.message.replace(share, "…"), calls))
    assert answers[0] == answers[1]
    assert answers[0][0] == "share '…' not found"


def test_a_share_is_returned_with_all_its_fields(env):
    created = env.admin.put_share("Sales", display_name="All sales", comment="daily", properties={"team": "x"}).value
    token = env.recipient("ann", "sales")
    assert env.catalog().find_share(token, "SALES").require() == created


def test_a_recreated_share_is_not_readable_with_the_old_grants(env):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    cached_share, cached_token_only = env.catalog(cache_seconds=60), env.catalog(cache_seconds=60)
    cached_share.find_share(token, "sales").require()
    cached_token_only.authenticate(token)
    env.admin.remove_share("sales", cascade=True)
    env.share("sales", "schema.table")
    assert env.catalog().find_table(token, "sales", "schema", "table").table is None
    # A reader with the old grant in its cache does not apply it to the new share.
    assert cached_token_only.find_share(token, "sales").share is None
    assert cached_token_only.find_table(token, "sales", "schema", "table").table is None
    assert cached_token_only.list_shares(token, page()).items == ()
    # A reader with the old share in its cache sees no schemas and tables of the new one.
    assert cached_share.find_table(token, "sales", "schema", "table").table is None
    assert cached_share.list_schemas(token, "sales", page()).items == ()
    assert cached_share.list_all_tables(token, "sales", page()).items == ()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_invalid_name_is_not_found(env, name):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    catalog = env.catalog()
    assert missing(catalog.find_share(token, name)) == f"share '{name}' not found"
    for names in ((name, "schema", "table"), ("sales", name, "table"), ("sales", "schema", name)):
        missing(catalog.find_table(token, *names))
    with pytest.raises(NotFoundError, match="schema"):
        catalog.list_tables(token, "sales", name, page())
    with pytest.raises(UnauthenticatedError):
        catalog.find_share(new_token(), name)


def test_finding_a_table_takes_one_call_and_none_while_cached(env):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    catalog = env.catalog(cache_seconds=5)
    with counted_calls(env.client) as calls:
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"]
        env.clock.seconds += 4
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"]
        env.clock.seconds += 1
        catalog.find_table(token, "sales", "schema", "table").require()
        assert calls == ["BatchGetItem"] * 2


def test_missing_entries_are_not_cached(env):
    env.share("sales")
    token = env.recipient("ann", "sales")
    catalog = env.catalog(cache_seconds=60)
    missing(catalog.find_table(token, "sales", "schema", "table"))
    env.share("sales", "schema.table")
    catalog.find_table(token, "sales", "schema", "table").require()


def test_a_revocation_takes_effect_within_the_cache_time(env):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    catalog = env.catalog(cache_seconds=5)
    catalog.find_table(token, "sales", "schema", "table").require()
    env.admin.revoke("ann", "sales")
    env.clock.seconds += 5
    assert catalog.find_table(token, "sales", "schema", "table").table is None


@pytest.mark.parametrize(
    "request_of_a_route",
    [
        lambda catalog, token: catalog.list_shares(token, page()),
        lambda catalog, token: catalog.find_share(token, "sales"),
        lambda catalog, token: catalog.list_schemas(token, "sales", page()),
        lambda catalog, token: catalog.list_tables(token, "sales", "core", page()),
        lambda catalog, token: catalog.list_all_tables(token, "sales", page()),
        lambda catalog, token: catalog.find_table(token, "sales", "core", "orders"),
    ],
)
def test_a_request_reads_only_partition_keys_that_the_policy_of_the_functions_allows(env, request_of_a_route):
    """IAM allows a request only if it allows all keys in it."""
    env.share("Sales", "core.orders")
    token = env.recipient("ann", "sales")
    with partitions_read(env.client) as read:
        request_of_a_route(env.catalog(), token)
    assert read
    assert [pk for pk in read if not any(fnmatchcase(pk, allowed) for allowed in READ_BY_FUNCTIONS)] == []


@pytest.mark.parametrize("hidden", ["RECIPIENTS", "TABLE_ID#1"])
def test_the_policy_of_the_functions_does_not_allow_to_read_recipients_and_table_ids(hidden):
    assert not any(fnmatchcase(hidden, allowed) for allowed in READ_BY_FUNCTIONS)
