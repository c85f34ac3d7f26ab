"""The lifetime of tokens that the command issues, and its maximum."""

import json
from datetime import UTC, datetime

import pytest


@pytest.fixture
def acme(catalog):
    """A catalog with the recipient `acme`."""
    catalog.put_recipient("acme")


@pytest.mark.parametrize("command", ["issue", "rotate"])
def test_the_maximum_lifetime_of_tokens_is_a_setting(sluice, acme, monkeypatch, command):
    monkeypatch.setenv("SLUICE_MAX_TOKEN_DAYS", "400")
    assert sluice("token", command, "acme", "--expires", "400d").code == 0
    monkeypatch.setenv("SLUICE_MAX_TOKEN_DAYS", "30")
    too_long = sluice("token", command, "acme", "--expires", "31d")
    assert "A token lives for 1 second to 30 days, not 31 days" in too_long.err
    monkeypatch.setenv("SLUICE_MAX_TOKEN_DAYS", "a month")
    assert sluice("token", command, "acme").err == (
        "Error: SLUICE_MAX_TOKEN_DAYS is 'a month'. It must be a number of days, at least 0.\n"
    )


@pytest.mark.parametrize(("setting", "days"), [("", 90), ("400", 90), ("30", 30)])
def test_a_token_lives_for_90_days_unless_the_maximum_is_shorter(sluice, acme, monkeypatch, setting, days):
    monkeypatch.setenv("SLUICE_MAX_TOKEN_DAYS", setting)
    profile = json.loads(sluice("token", "issue", "acme").out)
    lifetime = datetime.fromisoformat(profile["expirationTime"]) - datetime.now(UTC)
    assert days - 0.1 < lifetime.total_seconds() / 86_400 <= days
