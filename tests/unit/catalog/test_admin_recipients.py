import pytest

from core.catalog import store
from core.catalog.admin import CatalogAdmin, recipients
from core.catalog.errors import ConflictError, EntryNotFoundError, InvalidEntryError, LimitError
from core.catalog.tokens import sha256
from core.errors import UnauthenticatedError
from tests.unit.catalog.environment import DAY, Environment, counted_calls, page


def works(env: Environment, token: str) -> bool:
    try:
        env.catalog().authenticate(token)
    except UnauthenticatedError:
        return False
    return True


def visible(env: Environment, token: str) -> list[str]:
    return [share.name for share in env.catalog().list_shares(token, page()).items]


def test_a_recipient_is_created_then_unchanged_then_updated_and_keeps_grants_and_tokens(env):
    env.share("sales")
    created = env.admin.put_recipient("Ann", comment="finance")
    _, token = env.admin.issue_token("ann", lifetime_seconds=DAY)
    env.admin.grant("ANN", "sales")
    again = env.admin.put_recipient("ANN", comment="finance")
    updated = env.admin.put_recipient("ann", comment=None)
    assert [written.outcome for written in (created, again, updated)] == ["created", "unchanged", "updated"]
    assert (updated.value.id, updated.value.name) == (created.value.id, "Ann")
    assert visible(env, token) == ["sales"]


def test_recipients_are_listed_in_order(env):
    for name in ("bob", "Ann"):
        env.admin.put_recipient(name)
    assert [recipient.name for recipient in env.admin.recipients()] == ["Ann", "bob"]


def test_the_catalog_never_stores_a_token_in_plain_text(env):
    token = env.recipient("ann")
    everything = repr(env.client.scan(TableName=env.table_name)["Items"])
    assert sha256(token) in everything
    assert token not in everything
    assert token.removeprefix("slc_") not in everything


def test_granting_and_revoking_apply_to_every_token_of_the_recipient(env):
    env.share("Sales")
    tokens = [env.recipient("ann"), env.recipient("ann")]
    assert env.admin.grant("ann", "SALES").outcome == "updated"
    assert env.admin.grant("ann", "sales").outcome == "unchanged"
    assert [visible(env, token) for token in tokens] == [["Sales"], ["Sales"]]
    assert env.admin.revoke("ann", "sales").outcome == "updated"
    assert env.admin.revoke("ann", "sales").outcome == "unchanged"
    assert [visible(env, token) for token in tokens] == [[], []]


def test_revoking_a_token_keeps_the_others_valid(env):
    env.admin.put_recipient("ann")
    revoked, dead = env.admin.issue_token("ann", lifetime_seconds=DAY)
    _, alive = env.admin.issue_token("ann", lifetime_seconds=DAY)
    env.admin.revoke_token("ann", revoked.id)
    assert (works(env, dead), works(env, alive)) == (False, True)


def test_removing_a_recipient_revokes_its_tokens_and_a_new_one_inherits_nothing(env):
    env.share("sales")
    token = env.recipient("ann", "sales")
    old_id = env.admin.recipient("ann").id
    env.admin.remove_recipient("Ann")
    assert not works(env, token)
    new = env.recipient("ann")
    assert env.admin.recipient("ann").id != old_id
    assert visible(env, new) == []


def test_a_rotation_issues_a_token_and_expires_the_old_one_after_the_grace_period(env):
    env.admin.put_recipient("ann")
    rotated, old = env.admin.issue_token("ann", lifetime_seconds=DAY)
    _, other = env.admin.issue_token("ann", lifetime_seconds=DAY)
    _, new = env.admin.rotate_token("ann", rotated.id, grace_seconds=60, lifetime_seconds=2 * DAY)
    assert all(works(env, token) for token in (old, other, new))
    env.clock.seconds += 60
    assert [works(env, token) for token in (old, other, new)] == [False, True, True]


def test_a_rotation_of_all_tokens_without_grace_leaves_only_the_new_token(env):
    old_tokens = [env.recipient("ann"), env.recipient("ann")]
    _, new = env.admin.rotate_token("ann", grace_seconds=0, lifetime_seconds=DAY)
    assert [works(env, token) for token in (*old_tokens, new)] == [False, False, True]
    assert len(env.admin.recipient("ann").tokens) == 1


def test_a_token_rotated_without_grace_says_that_it_expired(env):
    old = env.recipient("ann")
    env.admin.rotate_token("ann", grace_seconds=0, lifetime_seconds=DAY)
    with pytest.raises(UnauthenticatedError, match="The bearer token expired at"):
        env.catalog().authenticate(old)


def test_an_expired_token_keeps_no_grants(env):
    env.share("sales")
    env.admin.put_recipient("ann")
    env.admin.grant("ann", "sales")
    token, _ = env.admin.issue_token("ann", lifetime_seconds=60)
    env.clock.seconds += 60
    env.admin.put_recipient("ann", comment="changed")
    key = {"pk": {"S": f"TOKEN#{token.sha256}"}, "sk": {"S": "#TOKEN"}}
    assert env.client.get_item(TableName=env.table_name, Key=key)["Item"]["grants"] == {"M": {}}


def test_a_rotation_never_extends_a_token(env):
    env.admin.put_recipient("ann")
    _, old = env.admin.issue_token("ann", lifetime_seconds=10)
    env.admin.rotate_token("ann", grace_seconds=60, lifetime_seconds=DAY)
    env.clock.seconds += 10
    assert not works(env, old)


def test_expired_tokens_make_room_for_new_ones(env, monkeypatch):
    monkeypatch.setattr(recipients, "MAX_TOKENS", 3)
    env.admin.put_recipient("ann")
    for _ in range(3):
        env.admin.issue_token("ann", lifetime_seconds=60)
    with pytest.raises(LimitError, match="3 tokens"):
        env.admin.issue_token("ann", lifetime_seconds=60)
    env.clock.seconds += 60
    token, secret = env.admin.issue_token("ann", lifetime_seconds=60)
    assert env.admin.recipient("ann").tokens == (token,)
    assert works(env, secret)


def test_the_number_of_grants_is_limited(env, monkeypatch):
    monkeypatch.setattr(recipients, "MAX_GRANTS", 2)
    for name in ("a", "b", "c"):
        env.share(name)
    env.recipient("ann", "a", "b")
    with pytest.raises(LimitError, match="2 grants"):
        env.admin.grant("ann", "c")
    assert env.admin.grant("ann", "b").outcome == "unchanged"


def test_a_transaction_larger_than_dynamodb_allows_is_rejected_with_advice(env, monkeypatch):
    env.share("a")
    tokens = [env.recipient("ann") for _ in range(5)]
    monkeypatch.setattr(store, "WRITE_BYTES", 2000)
    with pytest.raises(LimitError, match="remove grants or tokens"):
        env.admin.grant("ann", "a")
    assert [visible(env, token) for token in tokens] == [[]] * 5


def test_a_token_item_is_kept_for_90_days_after_its_expiry(env):
    env.admin.put_recipient("ann")
    token, _ = env.admin.issue_token("ann", lifetime_seconds=60)
    key = {"pk": {"S": f"TOKEN#{token.sha256}"}, "sk": {"S": "#TOKEN"}}
    item = env.client.get_item(TableName=env.table_name, Key=key)["Item"]
    assert int(item["expires_at"]["N"]) == token.expires_at == int(env.clock.seconds) + 60
    assert int(item["ttl"]["N"]) == token.expires_at + 90 * DAY


def test_a_token_lives_for_at_most_a_year_by_default(env):
    env.admin.put_recipient("ann")
    env.admin.issue_token("ann", lifetime_seconds=365 * DAY)
    with pytest.raises(InvalidEntryError, match="1 second to 365 days, not 366 days: .*SLUICE_MAX_TOKEN_DAYS"):
        env.admin.issue_token("ann", lifetime_seconds=366 * DAY)
    with pytest.raises(InvalidEntryError, match="1 second to 365 days, not 31536001 seconds"):
        env.admin.rotate_token("ann", grace_seconds=0, lifetime_seconds=365 * DAY + 1)
    assert len(env.admin.recipient("ann").tokens) == 1


@pytest.mark.parametrize(("setting", "longest"), [(DAY, DAY), (1000 * DAY, 1000 * DAY), (10**10, 3650 * DAY)])
def test_the_maximum_lifetime_of_a_token_can_be_set(env, setting, longest):
    admin = CatalogAdmin(env.client, env.table_name, max_token_seconds=setting, now=env.clock)
    admin.put_recipient("ann")
    assert admin.issue_token("ann", lifetime_seconds=longest)[0].expires_at == env.clock.seconds + longest
    with pytest.raises(InvalidEntryError, match="a token lives for"):
        admin.issue_token("ann", lifetime_seconds=longest + 1)


@pytest.mark.parametrize("seconds", [0, -1, 10**10])
def test_a_token_lifetime_must_be_positive_and_limited(env, seconds):
    env.admin.put_recipient("ann")
    with pytest.raises(InvalidEntryError):
        env.admin.issue_token("ann", lifetime_seconds=seconds)
    with pytest.raises(InvalidEntryError):
        env.admin.rotate_token("ann", grace_seconds=-1 - seconds, lifetime_seconds=seconds)
    assert env.admin.recipient("ann").tokens == ()


@pytest.mark.parametrize(
    "act",
    [
        lambda admin: admin.recipient("none"),
        lambda admin: admin.remove_recipient("none"),
        lambda admin: admin.grant("none", "sales"),
        lambda admin: admin.grant("ann", "none"),
        lambda admin: admin.revoke("none", "sales"),
        lambda admin: admin.issue_token("none", lifetime_seconds=60),
        lambda admin: admin.revoke_token("ann", "none"),
        lambda admin: admin.rotate_token("ann", "none", grace_seconds=0, lifetime_seconds=60),
    ],
)
def test_missing_entries_are_reported(env, act):
    env.share("sales")
    env.recipient("ann")
    with pytest.raises(EntryNotFoundError):
        act(env.admin)


def test_a_change_that_lost_a_race_is_retried_on_the_current_state(env):
    for name in ("a", "b"):
        env.share(name)
    token = env.recipient("ann")
    overtaken = []

    def overtake(**_) -> None:
        if not overtaken:
            overtaken.append(True)
            env.admin.grant("ann", "b")

    env.client.meta.events.register("before-call.dynamodb.TransactWriteItems", overtake)
    try:
        env.admin.grant("ann", "a")
    finally:
        env.client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", overtake)
    assert overtaken
    assert visible(env, token) == ["a", "b"]


def test_a_change_that_always_loses_ends_in_a_conflict(env):
    env.recipient("ann")
    env.admin._sleep = lambda seconds: None
    numbers = iter(range(1000))
    inside = []

    def overtake(**_) -> None:
        if not inside:
            inside.append(True)
            env.admin.put_recipient("ann", comment=str(next(numbers)))
            inside.clear()

    env.client.meta.events.register("before-call.dynamodb.TransactWriteItems", overtake)
    try:
        with pytest.raises(ConflictError):
            env.admin.put_recipient("ann", comment="mine")
    finally:
        env.client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", overtake)
    assert env.admin.recipient("ann").comment != "mine"


def test_a_catalog_created_by_cloudformation_gets_signing_keys_with_the_first_token(env):
    env.client.delete_item(TableName=env.table_name, Key={"pk": {"S": "KEYS"}, "sk": {"S": "#KEYS"}})
    env.share("a")
    env.share("b")
    token = env.recipient("ann", "a", "b")
    assert env.catalog().list_shares(token, page(1)).next_page_token


def test_signing_keys_are_cached_for_minutes(env):
    token = env.recipient("ann")
    catalog = env.catalog()
    catalog.list_shares(token, page())
    with counted_calls(env.client) as calls:
        catalog.list_shares(token, page())
    assert calls == ["BatchGetItem"]
