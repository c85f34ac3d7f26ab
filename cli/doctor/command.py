"""`sluice doctor`: checks the account and the tables, and names a remedy for each failure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from cli.common.account import Account
from cli.common.errors import CommandError
from cli.common.options import Json, account_of, table_name
from cli.common.output import Output
from cli.doctor.checks import ACCOUNT, RECIPIENTS, Finding, Status
from core.catalog.model import Table

SIGNS = {
    Status.PASSED: ("✓", "green"),
    Status.WARNED: ("!", "yellow"),
    Status.FAILED: ("✗", "red"),
    Status.NOT_RUN: ("-", "dim"),
}


def doctor(
    context: typer.Context,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="SHARE.SCHEMA.TABLE", help="Tables to check. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the account, the endpoint, the tokens and the tables, and name a fix for each failure.

    Account checks: region, clock, credentials, catalog. If they pass, the recipients' side is checked: endpoint (sends
    a request to SLUICE_ENDPOINT, if set), tokens (warns of those that expire soon). Then each table: location, bucket,
    role, log, features, paths, signed-url (opens a file like a recipient), auxiliary (its auxiliary locations, if any),
    cross-check (compares the log reader with deltalake).

    The exit code is 1 if a check failed. Warnings do not change it.

    Example: sluice doctor sales.retail.orders
    """
    output = Output(as_json=as_json)
    names = [table_name(name) for name in tables or ()]
    findings: list[Finding] = []
    for finding in _check(account_of(context), names):
        if not as_json:
            _show_in_group(finding, findings[-1].subject if findings else None, output)
        findings.append(finding)
    if as_json:
        output.document([asdict(finding) for finding in findings])
    else:
        output.print(f"\n{summary(findings)}")
    if any(finding.status is Status.FAILED for finding in findings):
        raise typer.Exit(1)


def require_passed(tables: Iterable[Table], account: Account, output: Output, *, otherwise: str) -> None:
    """Checks tables before they are added and shows warnings and failures.

    Raises a CommandError with the message `otherwise` if a check fails.
    """
    from cli.doctor.table import check_tables

    failed = []
    for finding in check_tables(tables, account):
        if finding.status is Status.FAILED:
            failed.append(finding)
        if finding.status is Status.WARNED or (finding.status is Status.FAILED and not output.as_json):
            show_finding(finding, output.note)
    if failed:
        raise CommandError(otherwise, details={"findings": [asdict(finding) for finding in failed]})


def _check(account: Account, names: list[tuple[str, str, str]]) -> Iterator[Finding]:
    from cli.doctor.account import AccountChecks

    failed = False
    for finding in AccountChecks(account).run():
        failed = failed or finding.status is Status.FAILED
        yield finding
    if failed:
        return
    from cli.doctor.recipients import RecipientChecks
    from cli.doctor.table import check_tables

    yield from RecipientChecks(account).run()
    admin = account.admin()
    if names:
        yield from check_tables([admin.table(*name) for name in names], account)
    else:
        yield from check_tables((table for share in admin.shares() for table in admin.tables(share.name)), account)


def show_finding(finding: Finding, show: Callable[[Text], None]) -> None:
    """Shows a finding that is not part of a group."""
    show(_line(finding, f"{finding.subject} "))


def _show_in_group(finding: Finding, previous: str | None, output: Output) -> None:
    """Shows a finding below the name of its subject, which starts a group."""
    if finding.subject != previous:
        if previous:
            output.print("")
        output.print(Text(finding.subject, style="bold"))
    output.print(_line(finding, indent="  "))


def _line(finding: Finding, subject: str = "", *, indent: str = "") -> Text:
    sign, style = SIGNS[finding.status]
    line = Text.assemble(indent, (sign, style), f" {subject}", (finding.check, "bold"), f": {finding.detail}")
    if finding.remedy:
        line.append(f"\n{indent}  → {finding.remedy}")
    return line


def summary(findings: Sequence[Finding]) -> str:
    """Returns one line: how much was checked, which checks failed, and which warned."""
    tables = len({finding.subject for finding in findings} - {ACCOUNT, RECIPIENTS})
    sentences = [f"Checked the account and {tables:,} {'table' if tables == 1 else 'tables'}."]
    for word, status in (("Failed", Status.FAILED), ("Warnings", Status.WARNED)):
        if found := [f"{finding.subject} ({finding.check})" for finding in findings if finding.status is status]:
            sentences.append(f"{word}: {', '.join(found)}.")
    return " ".join(sentences if len(sentences) > 1 else [*sentences, "No problems found."])
