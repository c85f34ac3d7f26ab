import pytest

from core.catalog import store
from core.catalog.admin import recipients
from core.catalog.errors import ConflictError, EntryNotFoundError, InvalidEntryError, LimitError
from core.catalog.tokens import sha256
from core.errors import UnauthenticatedError
from tests.unit.catalog.world import DAY, World, counted_calls, page


def works(world: World, token: str) -> bool:
    try:
        world.catalog().authenticate(token)
    except UnauthenticatedError:
        return False
    return True


def visible(world: World, token: str) -> list[str]:
    return [share.name for share in world.catalog().list_shares(token, page()).items]


def test_a_recipient_is_created_then_unchanged_then_updated_and_keeps_grants_and_tokens(world):
    world.share("sales")
    created = world.admin.put_recipient("Ann", comment="finance")
    _, token = world.admin.issue_token("ann", lifetime_seconds=DAY)
    world.admin.grant("ANN", "sales")
    again = world.admin.put_recipient("ANN", comment="finance")
    updated = world.admin.put_recipient("ann", comment=None)
    assert [written.outcome for written in (created, again, updated)] == ["created", "unchanged", "updated"]
    assert (updated.value.id, updated.value.name) == (created.value.id, "Ann")
    assert visible(world, token) == ["sales"]


def test_recipients_are_listed_in_order(world):
    for name in ("bob", "Ann"):
        world.admin.put_recipient(name)
    assert [recipient.name for recipient in world.admin.recipients()] == ["Ann", "bob"]


def test_the_catalog_never_holds_a_token_itself(world):
    token = world.recipient("ann")
    everything = repr(world.client.scan(TableName=world.table_name)["Items"])
    assert sha256(token) in everything
    assert token not in everything
    assert token.removeprefix("slc_") not in everything


def test_a_grant_shows_in_every_token_of_the_recipient_and_goes_with_its_revocation(world):
    world.share("Sales")
    tokens = [world.recipient("ann"), world.recipient("ann")]
    assert world.admin.grant("ann", "SALES").outcome == "updated"
    assert world.admin.grant("ann", "sales").outcome == "unchanged"
    assert [visible(world, token) for token in tokens] == [["Sales"], ["Sales"]]
    assert world.admin.revoke("ann", "sales").outcome == "updated"
    assert world.admin.revoke("ann", "sales").outcome == "unchanged"
    assert [visible(world, token) for token in tokens] == [[], []]


def test_a_revoked_token_is_dead_and_the_others_are_not(world):
    world.admin.put_recipient("ann")
    revoked, dead = world.admin.issue_token("ann", lifetime_seconds=DAY)
    _, alive = world.admin.issue_token("ann", lifetime_seconds=DAY)
    world.admin.revoke_token("ann", revoked.id)
    assert (works(world, dead), works(world, alive)) == (False, True)


def test_removing_a_recipient_ends_its_tokens_and_one_of_the_same_name_starts_afresh(world):
    world.share("sales")
    token = world.recipient("ann", "sales")
    old_id = world.admin.recipient("ann").id
    world.admin.remove_recipient("Ann")
    assert not works(world, token)
    fresh = world.recipient("ann")
    assert world.admin.recipient("ann").id != old_id
    assert visible(world, fresh) == []


def test_a_rotation_gives_a_new_token_and_ends_the_old_one_after_the_grace_period(world):
    world.admin.put_recipient("ann")
    rotated, old = world.admin.issue_token("ann", lifetime_seconds=DAY)
    _, other = world.admin.issue_token("ann", lifetime_seconds=DAY)
    _, new = world.admin.rotate_token("ann", rotated.id, grace_seconds=60, lifetime_seconds=2 * DAY)
    assert all(works(world, token) for token in (old, other, new))
    world.clock.seconds += 60
    assert [works(world, token) for token in (old, other, new)] == [False, True, True]


def test_a_rotation_of_all_without_grace_leaves_the_new_token_only(world):
    olds = [world.recipient("ann"), world.recipient("ann")]
    _, new = world.admin.rotate_token("ann", grace_seconds=0, lifetime_seconds=DAY)
    assert [works(world, token) for token in (*olds, new)] == [False, False, True]
    assert len(world.admin.recipient("ann").tokens) == 1


def test_a_rotation_never_lengthens_a_tokens_life(world):
    world.admin.put_recipient("ann")
    _, old = world.admin.issue_token("ann", lifetime_seconds=10)
    world.admin.rotate_token("ann", grace_seconds=60, lifetime_seconds=DAY)
    world.clock.seconds += 10
    assert not works(world, old)


def test_expired_tokens_make_room_for_new_ones(world, monkeypatch):
    monkeypatch.setattr(recipients, "MAX_TOKENS", 3)
    world.admin.put_recipient("ann")
    for _ in range(3):
        world.admin.issue_token("ann", lifetime_seconds=60)
    with pytest.raises(LimitError, match="3 tokens"):
        world.admin.issue_token("ann", lifetime_seconds=60)
    world.clock.seconds += 60
    token, secret = world.admin.issue_token("ann", lifetime_seconds=60)
    assert world.admin.recipient("ann").tokens == (token,)
    assert works(world, secret)


def test_a_recipient_has_a_bounded_number_of_grants(world, monkeypatch):
    monkeypatch.setattr(recipients, "MAX_GRANTS", 2)
    for name in ("a", "b", "c"):
        world.share(name)
    world.recipient("ann", "a", "b")
    with pytest.raises(LimitError, match="2 grants"):
        world.admin.grant("ann", "c")
    assert world.admin.grant("ann", "b").outcome == "unchanged"


def test_more_grants_than_one_transaction_holds_for_all_tokens_are_refused_in_words(world, monkeypatch):
    world.share("a")
    tokens = [world.recipient("ann") for _ in range(5)]
    monkeypatch.setattr(store, "WRITE_BYTES", 2000)
    with pytest.raises(LimitError, match="fewer grants or tokens"):
        world.admin.grant("ann", "a")
    assert [visible(world, token) for token in tokens] == [[]] * 5


def test_a_token_item_leaves_the_table_by_itself_when_it_expires(world):
    world.admin.put_recipient("ann")
    token, _ = world.admin.issue_token("ann", lifetime_seconds=60)
    key = {"pk": {"S": f"TOKEN#{token.sha256}"}, "sk": {"S": "#TOKEN"}}
    item = world.client.get_item(TableName=world.table_name, Key=key)["Item"]
    assert int(item["ttl"]["N"]) == token.expires_at == int(world.clock.seconds) + 60


@pytest.mark.parametrize("seconds", [0, -1, 10**10])
def test_a_tokens_lifetime_is_positive_and_bounded(world, seconds):
    world.admin.put_recipient("ann")
    with pytest.raises(InvalidEntryError):
        world.admin.issue_token("ann", lifetime_seconds=seconds)
    with pytest.raises(InvalidEntryError):
        world.admin.rotate_token("ann", grace_seconds=-1 - seconds, lifetime_seconds=seconds)
    assert world.admin.recipient("ann").tokens == ()


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
def test_what_does_not_exist_is_told(world, act):
    world.share("sales")
    world.recipient("ann")
    with pytest.raises(EntryNotFoundError):
        act(world.admin)


def test_a_change_that_was_overtaken_is_made_again_on_what_is_there_now(world):
    for name in ("a", "b"):
        world.share(name)
    token = world.recipient("ann")
    overtaken = []

    def overtake(**_) -> None:
        if not overtaken:
            overtaken.append(True)
            world.admin.grant("ann", "b")

    world.client.meta.events.register("before-call.dynamodb.TransactWriteItems", overtake)
    try:
        world.admin.grant("ann", "a")
    finally:
        world.client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", overtake)
    assert overtaken
    assert visible(world, token) == ["a", "b"]


def test_a_change_that_is_overtaken_for_ever_ends_in_a_conflict(world):
    world.recipient("ann")
    world.admin._sleep = lambda seconds: None
    numbers = iter(range(1000))
    inside = []

    def overtake(**_) -> None:
        if not inside:
            inside.append(True)
            world.admin.put_recipient("ann", comment=str(next(numbers)))
            inside.clear()

    world.client.meta.events.register("before-call.dynamodb.TransactWriteItems", overtake)
    try:
        with pytest.raises(ConflictError):
            world.admin.put_recipient("ann", comment="mine")
    finally:
        world.client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", overtake)
    assert world.admin.recipient("ann").comment != "mine"


def test_a_catalog_that_cloudformation_made_gets_its_signing_keys_with_the_first_token(world):
    world.client.delete_item(TableName=world.table_name, Key={"pk": {"S": "KEYS"}, "sk": {"S": "#KEYS"}})
    world.share("a")
    world.share("b")
    token = world.recipient("ann", "a", "b")
    assert world.catalog().list_shares(token, page(1)).next_page_token


def test_signing_keys_are_read_once_in_minutes(world):
    token = world.recipient("ann")
    catalog = world.catalog()
    catalog.list_shares(token, page())
    with counted_calls(world.client) as calls:
        catalog.list_shares(token, page())
    assert calls == ["BatchGetItem"]
