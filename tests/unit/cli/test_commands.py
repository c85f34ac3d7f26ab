"""The commands as a person or a script runs them: their output, their changes and their exit codes."""

import io

import pytest

from cli.main import run
from core.catalog import items

ORDERS = ("table", "add", "sales.retail.orders", "--location", "s3://bucket/orders", "--skip-checks")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_init_can_be_repeated(sluice):
    assert sluice("init", "--json").json == {"catalog": "sluice-catalog", "region": "eu-central-1"}
    assert sluice("init").code == 0


def test_init_creates_a_new_key_for_page_tokens_only_with_rotate_keys(sluice, catalog):
    def newest_key() -> bytes:
        return items.to_signing_keys(catalog._store.get([items.SIGNING_KEYS])[items.SIGNING_KEYS])[0].secret

    first = newest_key()
    assert sluice("init").code == 0
    assert newest_key() == first
    assert sluice("init", "--rotate-keys").code == 0
    assert newest_key() != first


def test_entries_are_listed_and_shown(sluice, filled):
    assert [share["name"] for share in sluice("share", "list", "--json").json] == ["sales"]
    assert sluice("share", "show", "sales", "--json").json["tables"] == ["retail.orders"]
    assert sluice("schema", "list", "sales", "--json").json == [{"name": "retail", "share": "sales"}]
    assert sluice("schema", "show", "SALES.Retail", "--json").json == {
        "name": "retail",
        "share": "sales",
        "tables": ["orders"],
    }
    (table,) = sluice("table", "list", "sales", "--schema", "retail", "--json").json
    assert table == sluice("table", "show", "sales.retail.orders", "--json").json
    assert (table["location"], table["accessModes"]) == ("s3://bucket/orders", ["url"])
    (recipient,) = sluice("recipient", "list", "--json").json
    assert recipient == sluice("recipient", "show", "acme", "--json").json
    assert recipient["shares"] == ["sales"]


def test_share_show_lists_who_may_read_the_share(sluice, filled):
    filled.put_recipient("beta")
    filled.put_share("ops")

    assert sluice("share", "show", "sales", "--json").json["recipients"] == ["acme"]
    assert sluice("share", "show", "ops", "--json").json["recipients"] == []
    assert sluice("share", "show", "sales").out.splitlines()[-1].split() == ["recipients", "acme"]
    assert "nobody yet" in sluice("share", "show", "ops").out


def test_a_grant_of_a_removed_share_does_not_count_for_a_new_share_of_the_same_name(sluice, filled):
    filled.remove_share("sales", cascade=True)
    filled.put_share("sales")

    assert sluice("share", "show", "sales", "--json").json["recipients"] == []


def test_table_list_without_a_share_lists_the_tables_of_all_shares(sluice, filled):
    filled.put_share("ops")
    filled.put_schema("ops", "logs")
    filled.put_table("ops", "logs", "requests", location="s3://bucket/requests")

    listed = sluice("table", "list", "--json").json

    assert [(table["share"], table["name"]) for table in listed] == [("ops", "requests"), ("sales", "orders")]
    assert sluice("table", "list").code == 0
    assert sluice("table", "list", "--schema", "retail").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("share", "list"),
        ("share", "show", "sales"),
        ("schema", "list", "sales"),
        ("schema", "show", "sales.retail"),
        ("table", "list", "sales"),
        ("table", "show", "sales.retail.orders"),
        ("recipient", "list"),
        ("recipient", "show", "acme"),
    ],
)
def test_without_json_a_command_prints_text_to_stdout_only(sluice, filled, command):
    result = sluice(*command)

    assert (result.code, result.err) == (0, "")
    assert {"sales", "retail", "orders", "acme"} & set(result.out.split())


def test_comments_are_never_interpreted_as_markup(sluice, catalog):
    sluice("share", "add", "sales", "--comment", "[red]not red[/red] :smile:")

    assert "[red]not red[/red] :smile:" in sluice("share", "list").out


@pytest.mark.parametrize(
    "command",
    [
        ("share", "add", "sales"),
        ("schema", "add", "SALES.retail"),
        ORDERS,
        ("recipient", "add", "acme"),
    ],
)
def test_adding_an_identical_entry_reports_that_it_is_unchanged(sluice, filled, command):
    result = sluice(*command, "--json")

    assert (result.code, result.json["outcome"]) == (0, "unchanged")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("share", "add", "sales", "--comment", "new"), "comment"),
        (("table", "add", "sales.retail.orders", "--location", "s3://other/orders", "--skip-checks"), "location"),
        (("recipient", "add", "acme", "--comment", "new"), "comment"),
    ],
)
def test_changing_an_existing_entry_with_add_requires_replace(sluice, filled, command, key):
    refused = sluice(*command)
    replaced = sluice(*command, "--replace", "--json")

    assert refused.code == 1
    assert f"another {key}. Use --replace to change it" in refused.err
    assert (replaced.code, replaced.json["outcome"]) == (0, "updated")


@pytest.mark.parametrize(
    "command",
    [
        ("share", "show", "x"),
        ("share", "remove", "x", "--yes"),
        ("schema", "list", "x"),
        ("schema", "show", "sales.x"),
        ("schema", "add", "x.retail"),
        ("schema", "remove", "sales.x", "--yes"),
        ("table", "show", "sales.retail.x"),
        ("table", "add", "sales.x.y", "--location", "s3://bucket/y", "--skip-checks"),
        ("table", "remove", "sales.retail.x", "--yes"),
        ("recipient", "show", "x"),
        ("recipient", "remove", "x", "--yes"),
        ("grant", "acme", "x"),
        ("grant", "x", "sales"),
        ("revoke", "acme", "x"),
        ("token", "issue", "x"),
        ("token", "list", "x"),
        ("token", "revoke", "acme", "x", "--yes"),
        ("token", "revoke", "acme", "--all", "--yes"),
        ("token", "rotate", "acme", "x"),
    ],
)
def test_a_missing_entry_is_an_error_in_one_line(sluice, filled, command):
    text = sluice(*command)
    document = sluice(*command, "--json")

    assert (text.code, document.code) == (1, 1)
    assert text.out == ""
    assert text.err.startswith("Error: ")
    assert text.err.count("\n") == 1
    assert set(document.json) == {"error"}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("table", "show", "sales.retail.x"), "Table 'sales.retail.x' does not exist. Check the name"),
        (("table", "show", "orders"), "'orders' is not a table name. Expected share.schema.table."),
        (("schema", "add", "retail"), "'retail' is not a schema name. Expected share.schema."),
        (("share", "add", "a b"), "must not contain ' '"),
        (("share", "add", "x", "--property", "novalue"), "'novalue' is not a property. Expected KEY=VALUE."),
        (
            ("table", "add", "sales.retail.x", "--location", "/data/x", "--skip-checks"),
            "'/data/x' is not an S3 location. Expected s3://bucket/path.",
        ),
        (
            ("token", "issue", "acme", "--expires", "soon"),
            "'soon' is not a duration. Expected a value such as 90d, 12h or 30m.",
        ),
        (("token", "issue", "acme", "--expires", "0d"), "A token lives for 1 second to 365 days, not 0 days"),
        (("token", "issue", "acme", "--expires", "366d"), "A token lives for 1 second to 365 days, not 366 days"),
        (("token", "rotate", "acme", "--expires", "366d"), "or change the maximum (SLUICE_MAX_TOKEN_DAYS)."),
        (
            ("token", "issue", "acme", "--endpoint", "sharing.example"),
            "'sharing.example' is not an endpoint URL. Expected https://",
        ),
        (("token", "revoke", "acme"), "Name one token, from `sluice token list`, or use --all."),
        (("token", "revoke", "acme", "x", "--all"), "Name one token, from `sluice token list`, or use --all."),
    ],
)
def test_invalid_input_is_reported_with_the_expected_form(sluice, filled, command, sentence):
    result = sluice(*command)

    assert result.code == 1
    assert sentence in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("share", "remove", "sales", "--cascade"),
        ("schema", "remove", "sales.retail", "--cascade"),
        ("table", "remove", "sales.retail.orders"),
        ("recipient", "remove", "acme"),
    ],
)
def test_removals_ask_first_and_require_yes_without_a_terminal(sluice, filled, monkeypatch, command):
    without_terminal = sluice(*command)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    declined = sluice(*command)
    assert (without_terminal.code, declined.code) == (1, 1)
    assert "Run the command again with --yes" in without_terminal.err
    assert filled.table("sales", "retail", "orders")
    assert filled.recipient("acme")

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert sluice(*command).code == 0
    assert sluice(*command, "--yes").code == 1


def test_removing_a_share_or_schema_that_is_not_empty_requires_cascade(sluice, filled):
    assert "--cascade" in sluice("share", "remove", "sales", "--yes").err
    assert "--cascade" in sluice("schema", "remove", "sales.retail", "--yes").err

    assert sluice("schema", "remove", "sales.retail", "--yes", "--cascade").code == 0
    assert sluice("share", "remove", "sales", "--yes").code == 0
    assert sluice("recipient", "show", "acme", "--json").json["shares"] == []


def test_grants_are_all_or_none_and_idempotent(sluice, filled):
    sluice("share", "add", "ops")

    assert sluice("grant", "acme", "ops", "nowhere").code == 1
    assert sluice("recipient", "show", "acme", "--json").json["shares"] == ["sales"]
    assert sluice("grant", "acme", "sales", "ops", "--json").json == {
        "recipient": "acme",
        "shares": [{"share": "sales", "outcome": "unchanged"}, {"share": "ops", "outcome": "granted"}],
    }
    assert sluice("revoke", "acme", "ops", "sales").code == 0
    assert sluice("recipient", "show", "acme", "--json").json["shares"] == []


def test_apply_shows_and_makes_the_changes_and_then_has_nothing_to_do(sluice, catalog, tmp_path):
    path = tmp_path / "shares.yaml"
    path.write_text("version: 1\nport: 80\nshares:\n- name: sales\n  comment: all of it\n")

    dry = sluice("apply", str(path), "--dry-run")
    first = sluice("apply", str(path))
    second = sluice("apply", str(path), "--json")
    third = sluice("apply", str(path))

    assert dry.out == "+ share sales\n    comment: all of it\nChanges that would be made: 1.\n"
    assert first.out == "+ share sales\n    comment: all of it\nChanges made: 1.\n"
    assert first.err == "Warning: These settings of the reference server have no effect here: port.\n"
    assert second.json == {"applied": True, "changes": []}
    assert third.out == "Nothing to do.\n"


def test_apply_warns_about_a_table_that_gets_a_new_id(sluice, catalog, tmp_path):
    path = tmp_path / "shares.yaml"
    tables = "[{{name: c, tables: [{{name: t, location: s3://bucket/{0}, id: x}}]}}]"
    shares = (f"- {{name: {name}, schemas: {tables.format(name)}}}" for name in ("one", "two"))
    path.write_text("\n".join(("version: 1", "shares:", *shares)))

    applied = sluice("apply", str(path))

    assert applied.code == 0
    assert applied.err.startswith("Warning: The table 'two.c.t' gets a new id, because 'one.c.t' has the id x.")


def test_apply_shows_updates_and_asks_before_it_removes(sluice, filled, tmp_path):
    path = tmp_path / "shares.yaml"
    path.write_text("version: 1\nshares:\n- name: sales\n  comment: new\n")

    refused = sluice("apply", str(path), "--prune")
    done = sluice("apply", str(path), "--prune", "--yes", "--json")

    assert refused.code == 1
    assert refused.out.splitlines() == [
        "- table sales.retail.orders",
        "- schema sales.retail",
        "~ share sales",
        "    comment: (none) → new",
    ]
    assert "(2)? Cannot ask without a terminal" in refused.err
    assert [(change["action"], change["name"]) for change in done.json["changes"]] == [
        ("remove", "sales.retail.orders"),
        ("remove", "sales.retail"),
        ("update", "sales"),
    ]
    assert filled.tables("sales") == []


def test_an_invalid_file_is_rejected_as_a_whole(sluice, catalog, tmp_path):
    path = tmp_path / "shares.yaml"
    path.write_text("version: 1\nshares:\n- name: good\n- name: bad\n  schemas: [{name: x, tables: [{name: t}]}]\n")

    result = sluice("apply", str(path))

    assert result.code == 1
    assert f"{path}:5: shares[1].schemas[0].tables[0].location: 'location' in a table must be provided" in result.err
    assert catalog.shares() == []


def test_an_interrupt_ends_a_command_quietly(monkeypatch, capsys):
    def interrupted(_account: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.common.account.Account.admin", interrupted)

    assert run(["share", "list"]) == 130
    assert capsys.readouterr() == ("", "")
