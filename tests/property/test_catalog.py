"""Compares the catalog with a simple model after random changes."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from core.catalog.errors import CatalogError
from core.catalog.tokens import sha256
from core.errors import UnauthenticatedError
from tests.examples import examples
from tests.unit.catalog.environment import Environment, moto_client, page
from tests.unit.catalog.listers import LISTERS

SHARES = ["sales", "Straße"]
SCHEMAS = ["one", "one-more"]
TABLES = ["t", "T" * 150]
RECIPIENTS = ["ann", "Bob@x.org"]


def in_any_case(names: list[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda name, convert: convert(name), st.sampled_from(names), st.sampled_from([str.upper, str.lower])
    )


shares, schemas, tables, recipients = map(in_any_case, (SHARES, SCHEMAS, TABLES, RECIPIENTS))


@dataclass
class ShareModel:
    id: str
    schemas: dict[str, set[str]] = field(default_factory=dict)

    def tables(self) -> set[tuple[str, str]]:
        return {(schema, table) for schema, tables in self.schemas.items() for table in tables}


@dataclass
class RecipientModel:
    grants: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, float] = field(default_factory=dict)
    """The expiry time of each token that is not revoked, by its secret."""


def fold(name: str) -> str:
    return name.casefold()


class CatalogAndModel(RuleBasedStateMachine):
    client: object

    def __init__(self) -> None:
        super().__init__()
        self.env = Environment(self.client)
        self.admin = self.env.admin
        self.catalog = self.env.catalog(cache_seconds=5)
        self.shares: dict[str, ShareModel] = {}
        self.recipients: dict[str, RecipientModel] = {}
        self.revoked: set[str] = set()

    @initialize()
    def start_with_shared_tables(self):
        for share in SHARES:
            self.put_share(share)
            self.put_schema(share, SCHEMAS[0])
            self.put_table(share, SCHEMAS[0], TABLES[0])
        for recipient in RECIPIENTS:
            self.put_recipient(recipient)
            self.grant(recipient, SHARES[0])
            self.issue_token(recipient, 100)
        self.check_every_token()

    def expect(self, possible: bool, change):
        """Performs the change if the model allows it, and otherwise checks that it is rejected."""
        if possible:
            return change()
        with pytest.raises(CatalogError):
            change()
        return None

    @rule(share=shares)
    def put_share(self, share):
        result = self.admin.put_share(share)
        assert (result.outcome == "created") == (fold(share) not in self.shares)
        assert self.shares.setdefault(fold(share), ShareModel(result.value.id)).id == result.value.id

    @rule(share=shares, cascade=st.booleans())
    def remove_share(self, share, cascade):
        model = self.shares.get(fold(share))
        possible = model is not None and (cascade or not model.schemas)
        self.expect(possible, lambda: self.admin.remove_share(share, cascade=cascade))
        if possible:
            del self.shares[fold(share)]
            for recipient in self.recipients.values():
                recipient.grants.pop(fold(share), None)

    @rule(share=shares, schema=schemas)
    def put_schema(self, share, schema):
        model = self.shares.get(fold(share))
        self.expect(model is not None, lambda: self.admin.put_schema(share, schema))
        if model:
            model.schemas.setdefault(fold(schema), set())

    @rule(share=shares, schema=schemas, cascade=st.booleans())
    def remove_schema(self, share, schema, cascade):
        model = self.shares.get(fold(share))
        tables_in_schema = None if model is None else model.schemas.get(fold(schema))
        possible = tables_in_schema is not None and (cascade or not tables_in_schema)
        self.expect(possible, lambda: self.admin.remove_schema(share, schema, cascade=cascade))
        if possible:
            del model.schemas[fold(schema)]

    @rule(share=shares, schema=schemas, table=tables)
    def put_table(self, share, schema, table):
        model = self.shares.get(fold(share))
        possible = model is not None and fold(schema) in model.schemas
        self.expect(possible, lambda: self.admin.put_table(share, schema, table, location="s3://bucket/table"))
        if possible:
            model.schemas[fold(schema)].add(fold(table))

    @rule(share=shares, schema=schemas, table=tables)
    def remove_table(self, share, schema, table):
        model = self.shares.get(fold(share))
        possible = model is not None and (fold(schema), fold(table)) in model.tables()
        self.expect(possible, lambda: self.admin.remove_table(share, schema, table))
        if possible:
            model.schemas[fold(schema)].remove(fold(table))

    @rule(recipient=recipients)
    def put_recipient(self, recipient):
        self.admin.put_recipient(recipient)
        self.recipients.setdefault(fold(recipient), RecipientModel())

    @rule(recipient=recipients)
    def remove_recipient(self, recipient):
        model = self.recipients.pop(fold(recipient), None)
        self.expect(model is not None, lambda: self.admin.remove_recipient(recipient))
        if model:
            self.revoked.update(model.tokens)

    @rule(recipient=recipients, share=shares)
    def grant(self, recipient, share):
        recipient_model, share_model = self.recipients.get(fold(recipient)), self.shares.get(fold(share))
        possible = recipient_model is not None and share_model is not None
        self.expect(possible, lambda: self.admin.grant(recipient, share))
        if possible:
            recipient_model.grants[fold(share)] = share_model.id

    @rule(recipient=recipients, share=shares)
    def revoke(self, recipient, share):
        model = self.recipients.get(fold(recipient))
        self.expect(model is not None, lambda: self.admin.revoke(recipient, share))
        if model:
            model.grants.pop(fold(share), None)

    @rule(recipient=recipients, lifetime=st.integers(1, 100))
    def issue_token(self, recipient, lifetime):
        model = self.recipients.get(fold(recipient))
        issued = self.expect(model is not None, lambda: self.admin.issue_token(recipient, lifetime_seconds=lifetime))
        if model:
            token, secret = issued
            assert token.expires_at == self.env.clock.seconds + lifetime
            model.tokens[secret] = token.expires_at

    @rule(recipient=recipients, grace=st.integers(0, 30))
    def rotate_all_tokens(self, recipient, grace):
        model = self.recipients.get(fold(recipient))
        issued = self.expect(
            model is not None,
            lambda: self.admin.rotate_token(recipient, grace_seconds=grace, lifetime_seconds=50),
        )
        if model:
            latest = self.env.clock.seconds + grace
            model.tokens = {secret: min(expiry, latest) for secret, expiry in model.tokens.items()}
            model.tokens[issued[1]] = self.env.clock.seconds + 50

    @rule(recipient=recipients)
    def revoke_a_token(self, recipient):
        model = self.recipients.get(fold(recipient))
        if model is None:
            return
        for token in self.admin.recipient(recipient).tokens[:1]:
            self.admin.revoke_token(recipient, token.id)
            secret = next(secret for secret in model.tokens if sha256(secret) == token.sha256)
            del model.tokens[secret]
            self.revoked.add(secret)

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds):
        self.env.clock.seconds += seconds

    @rule()
    def check_every_token(self):
        self.env.clock.seconds += 5  # the cache time, so that no entry is stale
        for secret in self.revoked:
            self.check_refused(secret)
        for model in self.recipients.values():
            for secret, expiry in model.tokens.items():
                if expiry <= self.env.clock.seconds:
                    self.check_refused(secret)
                else:
                    self.check_visible(secret, model)

    def check_refused(self, secret):
        with pytest.raises(UnauthenticatedError):
            self.catalog.authenticate(secret)

    def check_visible(self, secret, model):
        listed = self.catalog.list_shares(secret, page()).items
        assert {(fold(share.name), share.id) for share in listed} == set(model.grants.items())
        for share in SHARES:
            granted = self.shares[fold(share)] if fold(share) in model.grants else None
            assert (self.catalog.find_share(secret, share).share is not None) == (granted is not None)
            for schema in SCHEMAS:
                for table in TABLES:
                    found = self.catalog.find_table(secret, share, schema, table).table
                    readable = granted is not None and (fold(schema), fold(table)) in granted.tables()
                    assert (found is not None) == readable
            if granted is not None:
                tables_in_share = self.catalog.list_all_tables(secret, share, page()).items
                assert {(fold(table.schema), fold(table.name)) for table in tables_in_share} == granted.tables()
                schemas = self.catalog.list_schemas(secret, share, page()).items
                assert {fold(schema.name) for schema in schemas} == set(granted.schemas)

    def teardown(self):
        self.check_every_token()


@pytest.mark.hypothesis
def test_every_recipient_sees_exactly_what_the_model_predicts():
    with moto_client() as client:
        CatalogAndModel.client = client
        run_state_machine_as_test(
            CatalogAndModel,
            settings=settings(
                deadline=None,
                max_examples=examples(15),
                stateful_step_count=20,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


entry_names = st.text(st.sampled_from("abAB~#-é日\U0001f600"), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def dynamodb():
    with moto_client() as client:
        yield client


@pytest.mark.parametrize("lister_class", LISTERS)
@settings(deadline=None, max_examples=examples(10), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_an_entry_is_listed_once_while_others_are_added_and_removed_between_pages(dynamodb, lister_class, data):
    env = Environment(dynamodb)
    lister = lister_class(env)
    initial = data.draw(st.lists(entry_names, max_size=7, unique_by=str.casefold))
    for name in initial:
        lister.add(name)
    never_removed, ever_present = {fold(name) for name in initial}, {fold(name) for name in initial}
    present, listed, token = set(never_removed), [], None
    for _ in range(30):
        size = data.draw(st.integers(0, 3))
        listing = lister.list(env.catalog(), page(size, token))
        assert len(listing.items) <= size
        listed += [fold(name) for name in lister.names(listing)]
        token = listing.next_page_token
        if token is None:
            break
        added = fold(data.draw(entry_names))
        if added not in present:
            lister.add(added)
            present.add(added)
            ever_present.add(added)
        if removed := data.draw(st.none() | st.sampled_from(sorted(present))):
            lister.remove(removed)
            present.discard(removed)
            never_removed.discard(removed)
    else:
        rest = lister.list(env.catalog(), page(500, token))
        assert rest.next_page_token is None
        listed += [fold(name) for name in lister.names(rest)]
    assert len(listed) == len(set(listed))
    assert never_removed <= set(listed) <= ever_present
