"""What the doctor makes of the judge: a disagreement fails, a refusal warns, and a broken connection is neither."""

import json

import deltalake
import pytest

from cli.main import run
from tests.integration.doctor.provider import Provider, assert_first_failure


@pytest.fixture(scope="module")
def refused(provider: Provider) -> str:
    """By deltalake, to which `_last_checkpoint` is more than a hint."""
    location = provider.write_table("refused-by-deltalake")
    provider.put("refused-by-deltalake/_delta_log/_last_checkpoint", b'{"version": 0, "size": 3}')
    return location


def test_a_table_that_deltalake_refuses_and_this_server_reads_is_warned_of(provider, examine, refused):
    code, findings = examine(provider.add("refused-by-deltalake", refused))

    assert (code, findings["judge"]["status"]) == (0, "warned")
    assert "deltalake cannot read the table: " in findings["judge"]["detail"]
    assert "This server can." in findings["judge"]["remedy"]


def test_a_warning_is_shown_and_does_not_keep_a_table_from_being_added(provider, refused, capsys):
    assert run(["table", "add", "sales.retail.warned", "--location", refused, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["outcome"] == "created"
    assert captured.err.startswith("! sales.retail.warned judge: deltalake cannot read the table: ")


def test_a_disagreement_fails(provider, examine, monkeypatch):
    name = provider.add("disputed", provider.write_table("disputed"))
    monkeypatch.setattr(deltalake.DeltaTable, "version", lambda _: 7)

    _, findings = examine(name)

    assert "version: 0 here, 7 to deltalake" in assert_first_failure(findings, "judge")["detail"]


def test_a_failure_of_its_connection_is_no_verdict(provider, examine, monkeypatch):
    name = provider.add("unheard", provider.write_table("unheard"))

    def fail(_: object) -> None:
        raise OSError("no route\nwith details")

    monkeypatch.setattr(deltalake.DeltaTable, "version", fail)

    code, findings = examine(name)

    assert (code, findings["judge"]["status"]) == (0, "warned")
    assert findings["judge"]["detail"] == "deltalake cannot reach the table: no route"


def test_it_is_not_asked_about_more_files_than_it_could_hold(provider, examine, monkeypatch):
    name = provider.add("large", provider.write_table("large"))
    monkeypatch.setattr("core.delta.cross_check.MAX_FILES", 0)

    code, findings = examine(name)

    assert (code, findings["judge"]["status"]) == (0, "not run")
