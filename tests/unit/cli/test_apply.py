"""Plan and apply: the catalog ends up exactly as the file describes, and applying it again changes nothing."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.apply.plan import apply_file, plan
from cli.apply.shares_file import SharesFile, load
from cli.apply.table_ids import TableIds
from cli.common.account import Account
from cli.common.errors import CommandError
from core.catalog.admin import CatalogAdmin
from tests.examples import examples

NAMES = ("a", "B")
SHARES = ("Sales", "ops.eu")
RECIPIENTS = ("acme", "Globex")


def described(document: dict[str, object], folder: Path) -> SharesFile:
    path = folder / "shares.yaml"
    path.write_text(yaml.safe_dump({"version": 1, **document}))
    return load(path)


def share(name: str, *tables: str, **keys: object) -> dict[str, object]:
    """A share with one schema, `retail`, with these tables, each with its own location."""
    entries = [{"name": table, "location": f"s3://bucket/{table}"} for table in tables]
    return {"name": name, "schemas": [{"name": "retail", "tables": entries}], **keys}


def share_with_table_id(name: str, table: str, table_id: str) -> dict[str, object]:
    entry = share(name, table)
    entry["schemas"][0]["tables"][0]["id"] = table_id
    return entry


def summaries(changes) -> list[str]:
    return [f"{change.action} {change.kind} {change.name}" for change in changes]


def test_a_new_share_is_added_with_its_schemas_tables_and_grants(catalog, tmp_path):
    desired = described(
        {"shares": [share("sales", "orders")], "recipients": [{"name": "acme", "shares": ["SALES"]}]}, tmp_path
    )

    changes = apply_file(desired, catalog)

    assert summaries(changes) == [
        "add share sales",
        "add schema sales.retail",
        "add table sales.retail.orders",
        "add recipient acme",
        "add grant acme SALES",
    ]
    assert catalog.table("sales", "retail", "orders").location == "s3://bucket/orders"
    assert [grant.share for grant in catalog.recipient("acme").grants] == ["sales"]
    assert plan(desired, catalog, prune=True) == []


def test_a_plan_writes_nothing(catalog, tmp_path):
    plan(described({"shares": [share("sales", "orders")]}, tmp_path), catalog)

    assert catalog.shares() == []


def test_an_update_lists_the_differences_and_keeps_the_ids(catalog, tmp_path):
    apply_file(described({"shares": [share("sales", "orders")]}, tmp_path), catalog)
    before = catalog.table("sales", "retail", "orders")
    changed = share("SALES", "orders", comment="new")
    changed["schemas"][0]["tables"][0] |= {"location": "s3://bucket/moved", "historyShared": True}

    changes = apply_file(described({"shares": [changed]}, tmp_path), catalog)

    assert summaries(changes) == ["update share SALES", "update table SALES.retail.orders"]
    assert [(difference.key, difference.before, difference.after) for difference in changes[1].differences] == [
        ("location", "s3://bucket/orders", "s3://bucket/moved"),
        ("historyShared", False, True),
    ]
    after = catalog.table("sales", "retail", "orders")
    assert (after.id, after.share_id, after.location) == (before.id, before.share_id, "s3://bucket/moved")


def test_entries_that_are_not_in_the_file_are_removed_only_with_prune(catalog, tmp_path):
    both = {
        "shares": [share("sales", "orders", "returns"), share("ops", "machines")],
        "recipients": [{"name": "acme", "shares": ["sales", "ops"]}, {"name": "globex"}],
    }
    apply_file(described(both, tmp_path), catalog)
    less = described({"shares": [share("sales", "orders")], "recipients": [{"name": "acme"}]}, tmp_path)

    assert plan(less, catalog) == []
    changes = apply_file(less, catalog, prune=True)

    assert summaries(changes) == [
        "remove table sales.retail.returns",
        "remove table ops.retail.machines",
        "remove schema ops.retail",
        "remove share ops",
        "remove grant acme sales",
        "remove recipient globex",
    ]
    assert [found.name for found in catalog.shares()] == ["sales"]
    assert [(found.name, found.grants) for found in catalog.recipients()] == [("acme", ())]


def test_prune_keeps_recipients_if_the_file_has_no_such_section(catalog, tmp_path):
    with_recipients = {"shares": [share("sales")], "recipients": [{"name": "acme", "shares": ["sales"]}]}
    apply_file(described(with_recipients, tmp_path), catalog)

    assert plan(described({"shares": [share("sales")]}, tmp_path), catalog, prune=True) == []


def test_a_renamed_table_keeps_its_id(catalog, tmp_path):
    def with_table(name: str) -> SharesFile:
        return described({"shares": [share_with_table_id("sales", name, "kept")]}, tmp_path)

    apply_file(with_table("orders"), catalog)
    apply_file(with_table("purchases"), catalog, prune=True)

    assert [(table.name, table.id) for table in catalog.tables("sales")] == [("purchases", "kept")]


def test_another_id_for_an_existing_share_is_rejected_before_anything_is_written(catalog, tmp_path):
    apply_file(described({"shares": [share("sales", id="first")]}, tmp_path), catalog)

    with pytest.raises(CommandError, match="'sales' has the id first in the catalog, not second"):
        apply_file(described({"shares": [share("new"), share("sales", id="second")]}, tmp_path), catalog)

    assert [found.name for found in catalog.shares()] == ["sales"]


def reference_file(folder: Path, *tables: tuple[str, str, str]) -> SharesFile:
    """A file of the reference server: each table is given as its share, its name and its location, all with one id."""
    shares: dict[str, list[dict[str, str]]] = {}
    for share_name, name, location in tables:
        shares.setdefault(share_name, []).append({"name": name, "location": location, "id": "common"})
    entries = [{"name": name, "schemas": [{"name": "default", "tables": found}]} for name, found in shares.items()]
    return described({"shares": entries}, folder)


def test_tables_of_several_shares_with_the_same_location_keep_their_common_id(catalog, tmp_path):
    desired = reference_file(
        tmp_path, ("one", "t", "s3a://bucket/t"), ("two", "t", "s3://bucket/t/"), ("three", "u", "S3://bucket/t")
    )

    changes = apply_file(desired, catalog)

    assert [change.action for change in changes] == ["add"] * 9
    assert {table.id for name in ("one", "two", "three") for table in catalog.tables(name)} == {"common"}
    assert TableIds(desired.shares).warnings == []
    assert plan(desired, catalog, prune=True) == []


@pytest.mark.parametrize("second", [("two", "t", "s3://bucket/T"), ("one", "u", "s3://bucket/t")])
def test_another_table_with_the_same_id_gets_a_new_id_and_a_warning(catalog, tmp_path, second):
    desired = reference_file(tmp_path, ("one", "t", "s3://bucket/t"), second)

    apply_file(desired, catalog)

    name, table, _ = second
    given = catalog.table(name, "default", table).id
    assert catalog.table("one", "default", "t").id == "common"
    assert given != "common"
    assert TableIds(desired.shares).warnings == [
        (
            f"The table '{name}.default.{table}' gets a new id, because 'one.default.t' has the id common. "
            "Only tables of different shares with the same location can have the same id."
        )
    ]
    assert apply_file(desired, catalog, prune=True) == []
    assert catalog.table(name, "default", table).id == given


def test_a_new_share_of_the_same_location_may_use_the_id_of_a_table_in_the_catalog(catalog, tmp_path):
    apply_file(reference_file(tmp_path, ("one", "t", "s3://bucket/t")), catalog)

    apply_file(reference_file(tmp_path, ("two", "t", "s3://bucket/t")), catalog)

    assert catalog.table("two", "default", "t").id == catalog.table("one", "default", "t").id == "common"


def test_the_id_of_another_table_is_rejected_before_anything_is_written(catalog, tmp_path):
    apply_file(described({"shares": [share_with_table_id("sales", "orders", "taken")]}, tmp_path), catalog)

    with pytest.raises(CommandError, match="is already the id of 'sales.retail.orders' in the catalog"):
        apply_file(described({"shares": [share_with_table_id("new", "copies", "taken")]}, tmp_path), catalog)

    assert [found.name for found in catalog.shares()] == ["sales"]


def test_a_recreated_share_is_granted_again(catalog, tmp_path):
    document = {"shares": [share("sales")], "recipients": [{"name": "acme", "shares": ["sales"]}]}
    apply_file(described(document, tmp_path), catalog)
    catalog.remove_share("sales", cascade=True)

    apply_file(described(document, tmp_path), catalog)

    (grant,) = catalog.recipient("acme").grants
    assert grant.share_id == catalog.share("sales").id


def test_a_local_directory_is_shared_at_the_location_of_its_copy(catalog, tmp_path):
    (tmp_path / "trips" / "_delta_log").mkdir(parents=True)
    path = tmp_path / "local.yaml"
    entry = {"name": "sales", "schemas": [{"name": "c", "tables": [{"name": "trips", "location": "trips"}]}]}
    path.write_text(yaml.safe_dump({"version": 1, "shares": [entry]}))
    desired = load(path, local_tables=True)

    apply_file(desired, catalog, locate=lambda directory: f"s3://mirror/{directory.name}")

    assert catalog.table("sales", "c", "trips").location == "s3://mirror/trips"
    with pytest.raises(CommandError, match="Only `sluice serve` can share it"):
        plan(desired, catalog)


tables = st.fixed_dictionaries(
    {"location": st.sampled_from(["s3://bucket/x", "s3a://bucket/y"])},
    optional={
        "historyShared": st.booleans(),
        "startVersion": st.integers(0, 2**63 - 1),
        "stalenessSeconds": st.floats(0, 86_400),
        "accessModes": st.sampled_from([["url"], ["url", "dir"]]),
        "auxiliaryLocations": st.lists(st.sampled_from(["s3://more/1", "s3://more/2"]), max_size=2),
        "region": st.just("eu-west-1"),
        "roleArn": st.just("arn:aws:iam::123456789012:role/reader"),
        "kmsKeyArn": st.just("arn:aws:kms:eu-west-1:123456789012:key/k"),
    },
)


def named(names, content) -> st.SearchStrategy[list[dict[str, object]]]:
    """Entries with some of the names, in any order."""

    def entries(chosen: dict[str, dict[str, object]]) -> list[dict[str, object]]:
        return [{"name": name, **entry} for name, entry in chosen.items()]

    return st.dictionaries(st.sampled_from(names), content, max_size=len(names)).map(entries)


shares = named(
    SHARES,
    st.fixed_dictionaries(
        {"schemas": named(NAMES, st.fixed_dictionaries({"tables": named(NAMES, tables)}))},
        optional={"comment": st.sampled_from(["x", "y"]), "properties": st.just({"k": "v"})},
    ),
)


@st.composite
def documents(draw) -> dict[str, object]:
    drawn = draw(shares)
    granted = st.lists(st.sampled_from([entry["name"] for entry in drawn]), unique=True) if drawn else st.just([])
    recipients = named(RECIPIENTS, st.fixed_dictionaries({"shares": granted}, optional={"comment": st.just("x")}))
    return {"shares": drawn, "recipients": draw(recipients)}


def state(admin: CatalogAdmin) -> dict[str, object]:
    """The content of the catalog, without generated ids."""
    return {
        "shares": {
            found.name: (
                found.comment,
                dict(found.properties),
                {schema.name for schema in admin.schemas(found.name)},
                {
                    (table.schema, table.name): (
                        table.location,
                        table.history_shared,
                        table.start_version,
                        table.staleness_seconds,
                        table.access_modes,
                        table.auxiliary_locations,
                        table.region,
                        table.role_arn,
                        table.kms_key_arn,
                    )
                    for table in admin.tables(found.name)
                },
            )
            for found in admin.shares()
        },
        "recipients": {
            found.name: (found.comment, {grant.share for grant in found.grants}) for found in admin.recipients()
        },
    }


def described_state(document: dict) -> dict[str, object]:
    return {
        "shares": {
            entry["name"]: (
                entry.get("comment"),
                entry.get("properties", {}),
                {schema["name"] for schema in entry["schemas"]},
                {
                    (schema["name"], table["name"]): (
                        table["location"],
                        table.get("historyShared", False),
                        table.get("startVersion", 0),
                        round(table.get("stalenessSeconds", 0.0), 3),
                        tuple(table.get("accessModes", ["url"])),
                        tuple(table.get("auxiliaryLocations", [])),
                        table.get("region"),
                        table.get("roleArn"),
                        table.get("kmsKeyArn"),
                    )
                    for schema in entry["schemas"]
                    for table in schema["tables"]
                },
            )
            for entry in document["shares"]
        },
        "recipients": {entry["name"]: (entry.get("comment"), set(entry["shares"])) for entry in document["recipients"]},
    }


@pytest.fixture
def new_catalogs(sluice) -> Iterator[CatalogAdmin]:
    def fresh() -> Iterator[CatalogAdmin]:
        client = Account().client("dynamodb")
        for number in itertools.count():
            admin = CatalogAdmin(client, f"catalog-{number}")
            admin.create_catalog()
            yield admin

    return fresh()


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(first=documents(), second=documents())
def test_apply_with_prune_turns_any_catalog_into_exactly_what_the_file_describes(new_catalogs, tmp_path, first, second):
    admin = next(new_catalogs)
    for document in (first, second):
        desired = described(document, tmp_path)
        apply_file(desired, admin, prune=True)
        assert state(admin) == described_state(document)
        assert plan(desired, admin, prune=True) == []
