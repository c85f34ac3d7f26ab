"""Bearer tokens on the command line: issued once, listed, rotated and revoked."""

import json
import stat
import time
from datetime import UTC, datetime

import pytest

from cli.common.account import Account
from core.catalog.admin import CatalogAdmin
from core.catalog.reader import Catalog
from core.errors import UnauthenticatedError


@pytest.fixture
def tokens(filled):
    """Tokens by name: expired an hour ago, ending in 20 days, and in 60 days. The last one is of `beta`."""
    filled.put_recipient("beta")
    yesterday = CatalogAdmin(Account().client("dynamodb"), "sluice-catalog", now=lambda: time.time() - 86_400)
    ending = filled.issue_token("acme", lifetime_seconds=20 * 86_400)[0].id
    # Issuing a token removes expired ones, so the expired one comes last.
    expired = yesterday.issue_token("acme", lifetime_seconds=23 * 3600)[0].id
    return {
        "expired": expired,
        "ending": ending,
        "late": filled.issue_token("beta", lifetime_seconds=60 * 86_400)[0].id,
    }


def test_token_list_without_a_recipient_lists_all_tokens_and_marks_expired_ones(sluice, tokens):
    listed = sluice("token", "list", "--json").json

    assert {(token["recipient"], token["id"]): token["expired"] for token in listed} == {
        ("acme", tokens["ending"]): False,
        ("acme", tokens["expired"]): True,
        ("beta", tokens["late"]): False,
    }
    assert [token["id"] for token in sluice("token", "list", "beta", "--json").json] == [tokens["late"]]
    states = {line.split()[1]: line.split()[-1] for line in sluice("token", "list").out.splitlines()}
    assert states == {
        "ID": "STATE",
        tokens["expired"]: "expired",
        tokens["ending"]: "valid",
        tokens["late"]: "valid",
    }


def test_token_list_expiring_lists_the_next_ones_first_and_includes_expired_ones(sluice, tokens):
    def listed(*arguments: str) -> list[str]:
        return [token["id"] for token in sluice("token", "list", *arguments, "--json").json]

    assert listed("--expiring", "30d") == [tokens["expired"], tokens["ending"]]
    assert listed("--expiring", "90d") == [tokens["expired"], tokens["ending"], tokens["late"]]
    assert listed("beta", "--expiring", "30d") == []
    assert "'soon' is not a duration" in sluice("token", "list", "--expiring", "soon").err


def test_recipient_show_marks_expired_tokens(sluice, tokens):
    shown = sluice("recipient", "show", "acme").out

    assert f"{tokens['expired']}, expired 20" in shown
    assert f"{tokens['ending']}, expires 20" in shown


def test_an_issued_token_is_printed_as_a_profile_and_authenticates_the_recipient(sluice, filled):
    result = sluice("token", "issue", "acme", "--expires", "12h")

    profile = json.loads(result.out)
    assert set(profile) == {"shareCredentialsVersion", "endpoint", "bearerToken", "expirationTime"}
    assert (profile["shareCredentialsVersion"], profile["endpoint"]) == (1, "https://sharing.example/delta-sharing")
    lifetime = datetime.fromisoformat(profile["expirationTime"]) - datetime.now(UTC)
    assert 11.9 < lifetime.total_seconds() / 3600 <= 12
    assert authenticated(profile["bearerToken"]) == "acme"


def test_a_profile_file_is_private_and_never_overwrites_another(sluice, filled, tmp_path):
    out = tmp_path / "acme.share"

    first = sluice("token", "issue", "acme", "--out", str(out))
    second = sluice("token", "issue", "acme", "--out", str(out))

    assert (first.code, second.code) == (0, 1)
    assert f"{out} already exists" in second.err
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    token = json.loads(out.read_text())["bearerToken"]
    assert token not in first.out + first.err
    assert len(sluice("token", "list", "acme", "--json").json) == 1


def test_a_token_that_cannot_be_issued_leaves_no_file_behind(sluice, filled, tmp_path):
    assert sluice("token", "issue", "nobody", "--out", str(tmp_path / "x.share")).code == 1
    assert "cannot be written" in sluice("token", "issue", "acme", "--out", str(tmp_path / "no" / "x.share")).err

    assert list(tmp_path.iterdir()) == []
    assert sluice("token", "list", "acme", "--json").json == []


def test_a_profile_needs_the_servers_url(sluice, filled, monkeypatch):
    monkeypatch.delenv("SLUICE_ENDPOINT")

    assert "Use --endpoint or set SLUICE_ENDPOINT" in sluice("token", "issue", "acme").err
    assert sluice("token", "list", "acme", "--json").json == []


def test_rotation_issues_a_new_token_and_the_old_one_ends_after_the_grace_period(sluice, filled):
    old = sluice("token", "issue", "acme", "--json").json
    new = sluice("token", "rotate", "acme", "--grace", "0m", "--json").json

    assert authenticated(new["profile"]["bearerToken"]) == "acme"
    assert authenticated(old["profile"]["bearerToken"]) is None


def test_a_revoked_token_stops_working_and_other_tokens_do_not(sluice, filled):
    first, second = (sluice("token", "issue", "acme", "--json").json for _ in range(2))

    result = sluice("token", "revoke", "acme", first["token"]["id"], "--yes", "--json")

    assert result.json == {"recipient": "acme", "revoked": [first["token"]["id"]]}
    assert authenticated(first["profile"]["bearerToken"]) is None
    assert authenticated(second["profile"]["bearerToken"]) == "acme"
    assert sluice("token", "revoke", "acme", "--all", "--yes").code == 0
    assert authenticated(second["profile"]["bearerToken"]) is None


def test_no_command_shows_a_secret_again(sluice, filled):
    issued = sluice("token", "issue", "acme", "--json").json
    secret = issued["profile"]["bearerToken"]

    commands = [("token", "list", "acme"), ("recipient", "show", "acme"), ("recipient", "list", "--json")]
    shown = [sluice(*command) for command in commands]

    assert all(secret not in result.out + result.err for result in shown)
    assert issued["token"]["id"] in shown[0].out


def authenticated(token: str) -> str | None:
    """Returns the recipient of a token, as the functions read it, or None if it is not valid."""
    reader = Catalog(Account().client("dynamodb"), "sluice-catalog", cache_seconds=0)
    try:
        return reader.authenticate(token).name
    except UnauthenticatedError:
        return None
