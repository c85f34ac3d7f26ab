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
    recipient = env.admin.recipient("ann")
    assert (caller.id, caller.name) == (recipient.id, "Ann")
    assert caller.token_id == recipient.tokens[0].id
    assert caller.grants == {"sales": share_id}


def test_unknown_malformed_and_revoked_tokens_get_the_same_error(env):
    env.admin.put_recipient("ann")
    revoked, secret = env.admin.issue_token("ann", lifetime_seconds=60)
    env.admin.revoke_token("ann", revoked.id)
    removed = env.recipient("bob")
    env.admin.remove_recipient("bob")
    errors = [refusal(env.catalog(), token) for token in (new_token(), "garbled", "", secret, removed)]
    assert len({error.message for error in errors}) == 1
    assert "expired at" not in errors[0].message
    assert all(error.token_was_sent for error in errors)


def test_an_expired_token_says_when_it_expired(env):
    env.clock.seconds = 1_800_000_000
    env.admin.put_recipient("Ann")
    token, secret = env.admin.issue_token("ann", lifetime_seconds=60)
    env.clock.seconds += 60
    callers = []
    with pytest.raises(UnauthenticatedError) as caught:
        env.catalog().authenticate(secret, on_caller=callers.append)
    assert caught.value.message == (
        "The bearer token expired at 2027-01-15T08:01:00Z. Please ask your share provider for a new one."
    )
    assert caught.value.token_was_sent
    assert [(caller.name, caller.token_id) for caller in callers] == [("Ann", token.id)]


def test_an_expired_token_says_so_after_its_recipient_was_changed_or_removed(env):
    expired = env.recipient("ann")
    env.clock.seconds += DAY
    message = refusal(env.catalog(), expired).message
    env.recipient("ann")
    assert env.admin.recipient("ann").tokens[0].expires_at > env.clock.seconds
    assert refusal(env.catalog(), expired).message == message
    env.admin.remove_recipient("ann")
    assert refusal(env.catalog(), expired).message == message


def test_an_expired_token_that_is_revoked_is_forgotten(env):
    env.admin.put_recipient("ann")
    token, expired = env.admin.issue_token("ann", lifetime_seconds=DAY)
    env.clock.seconds += DAY
    env.admin.revoke_token("ann", token.id)
    assert refusal(env.catalog(), expired).message == refusal(env.catalog(), new_token()).message


def test_a_token_item_without_an_id_is_accepted_and_gets_its_id_with_the_next_change(env):
    """Earlier versions wrote no id."""
    secret = env.recipient("ann")
    (token,) = env.admin.recipient("ann").tokens
    key = {"pk": {"S": f"TOKEN#{token.sha256}"}, "sk": {"S": "#TOKEN"}}
    env.client.update_item(
        TableName=env.table_name,
        Key=key,
        UpdateExpression="REMOVE #id",
        ExpressionAttributeNames={"#id": "id"},
    )
    assert env.catalog().authenticate(secret).token_id is None
    env.admin.put_recipient("ann", comment="changed")
    assert env.catalog().authenticate(secret).token_id == token.id


def test_authenticating_an_expired_token_takes_one_call(env):
    token = env.recipient("ann")
    env.clock.seconds += DAY
    with counted_calls(env.client) as calls:
        refusal(env.catalog(), token)
    assert calls == ["BatchGetItem"]


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


class WarmFunction:
    """A process that has cached a table and the signing keys, while another process (`other`) has not."""

    def __init__(self, env, cache_seconds: float = 60) -> None:
        env.share("sales", "core.trips")
        self.token = env.recipient("ann", "sales")
        self._warm, self._env = env.catalog(cache_seconds), env
        self.tokens()

    def tokens(self, table: str = "trips") -> TableTokens:
        return self._warm.find_table(self.token, "sales", "core", table).table_tokens()

    def other(self) -> TableTokens:
        return self._env.catalog().find_table(self.token, "sales", "core", "trips").table_tokens()

    def forged(self) -> str:
        """A refresh token that no key has signed."""
        token = self.other().issue_refresh(7, "", "")
        return ("B" if token.startswith("A") else "A") + token[1:]

    def rotate_twice(self) -> None:
        self._env.clock.seconds += 2
        self._env.admin.rotate_signing_keys()
        self._env.admin.rotate_signing_keys()


def test_a_warm_function_accepts_new_tokens_at_once_after_two_rotations_of_the_keys(env):
    function = WarmFunction(env)
    function.rotate_twice()
    issued = function.other().issue_refresh(7, "", "")
    with counted_calls(env.client) as calls:
        tokens = function.tokens()
        assert tokens.read_refresh(issued).version == 7
    assert calls == ["BatchGetItem"]
    # The answer to this request, and the next requests, use the new keys.
    assert function.other().read_refresh(tokens.issue_refresh(8, "", "")).version == 8
    with counted_calls(env.client) as calls:
        assert function.tokens().read_refresh(issued).version == 7
    assert calls == []


def test_a_page_token_of_a_listing_is_accepted_at_once_after_two_rotations_of_the_keys(env):
    function = WarmFunction(env)
    warm = env.catalog(cache_seconds=60)
    env.share("more")
    env.admin.grant("ann", "more")
    warm.list_shares(function.token, page())
    function.rotate_twice()
    token = env.catalog().list_shares(function.token, page(1)).next_page_token
    assert [share.name for share in warm.list_shares(function.token, page(1, token)).items] == ["sales"]


def test_invalid_tokens_look_up_the_keys_at_most_once_a_second(env):
    function = WarmFunction(env)
    forged = function.forged()

    def calls_for_invalid_tokens() -> int:
        with counted_calls(env.client) as calls:
            for _ in range(20):
                with pytest.raises(InvalidParameterError, match="Error decoding refresh token"):
                    function.tokens().read_refresh(forged)
        return len(calls)

    counts = []
    for _ in range(3):
        env.clock.seconds += 1
        counts.append(calls_for_invalid_tokens())
    assert counts == [1, 1, 1]


def test_an_invalid_token_causes_no_second_call_if_the_keys_were_just_read(env):
    function = WarmFunction(env)
    env.clock.seconds += 1000
    forged = function.forged()
    with counted_calls(env.client) as calls, pytest.raises(InvalidParameterError):
        function.tokens().read_refresh(forged)
    assert calls == ["BatchGetItem"]


def test_every_call_for_a_table_also_reads_the_signing_keys(env):
    """Otherwise a warm function would sign with a key that two rotations have removed, for minutes."""
    function = WarmFunction(env)
    function.rotate_twice()
    env.share("sales", "core.other")
    with counted_calls(env.client) as calls:
        issued = function.tokens("other").tokens
    assert calls == ["BatchGetItem"]
    assert issued.keys == function.other().tokens.keys


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
