"""The cross-check in `sluice doctor`: a disagreement is a failure, a refusal or a failed connection is a warning."""

import json

import deltalake
import pytest

from cli.main import run
from tests.integration.doctor.provider import Provider, assert_first_failure


@pytest.fixture(scope="module")
def refused(provider: Provider) -> str:
    """The location of a table that deltalake refuses, because it relies on `_last_checkpoint`."""
    location = provider.write_table("refused-by-deltalake")
    provider.put("refused-by-deltalake/_delta_log/_last_checkpoint", b'{"version": 0, "size": 3}')
    return location


def test_a_table_that_deltalake_refuses_but_this_server_reads_gets_a_warning(provider, examine, refused):
    code, findings = examine(provider.add("refused-by-deltalake", refused))

    assert (code, findings["cross-check"]["status"]) == (0, "warned")
    assert "deltalake cannot read the table: " in findings["cross-check"]["detail"]
    assert "This server can." in findings["cross-check"]["remedy"]


def test_a_table_with_a_warning_is_added_and_the_warning_is_printed(provider, refused, capsys):
    assert run(["table", "add", "sales.retail.warned", "--location", refused, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["outcome"] == "created"
    assert captured.err.startswith("! sales.retail.warned cross-check: deltalake cannot read the table: ")


def test_a_disagreement_is_a_failure(provider, examine, monkeypatch):
    name = provider.add("disputed", provider.write_table("disputed"))
    monkeypatch.setattr(deltalake.DeltaTable, "version", lambda _: 7)

    _, findings = examine(name)

    assert "version: 0 here, 7 to deltalake" in assert_first_failure(findings, "cross-check")["detail"]


def test_a_failed_connection_is_a_warning(provider, examine, monkeypatch):
    name = provider.add("disconnected", provider.write_table("disconnected"))

    def fail(_: object) -> None:
        raise OSError("no route\nwith details")

    monkeypatch.setattr(deltalake.DeltaTable, "version", fail)

    code, findings = examine(name)

    assert (code, findings["cross-check"]["status"]) == (0, "warned")
    assert findings["cross-check"]["detail"] == "deltalake cannot reach the table: no route"


def test_a_table_with_too_many_files_is_not_cross_checked(provider, examine, monkeypatch):
    name = provider.add("large", provider.write_table("large"))
    monkeypatch.setattr("core.delta.cross_check.MAX_FILES", 0)

    code, findings = examine(name)

    assert (code, findings["cross-check"]["status"]) == (0, "not run")
