"""`sluice doctor`: checks the account and the tables, and names a remedy for each failure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from cli.common.account import Account
from cli.common.errors import CommandError
from cli.common.options import Json, account_of, table_name
from cli.common.output import Output
from cli.doctor.checks import Finding, Status
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
    """Check the account and the tables, and name a fix for each failure.

    Account checks: region, clock, credentials, catalog. If they pass, each table is checked: location, bucket, role,
    log, features, paths, signed-url (opens a file like a recipient), auxiliary (its auxiliary locations, if any),
    cross-check (compares the log reader with deltalake).

    The exit code is 1 if a check failed. Warnings do not change it.

    Example: sluice doctor sales.retail.orders
    """
    output = Output(as_json=as_json)
    names = [table_name(name) for name in tables or ()]
    findings = []
    for finding in _check(account_of(context), names):
        findings.append(finding)
        if not as_json:
            show_finding(finding, output.print)
    if as_json:
        output.document([asdict(finding) for finding in findings])
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
    from cli.doctor.table import check_tables

    admin = account.admin()
    if names:
        yield from check_tables([admin.table(*name) for name in names], account)
    else:
        yield from check_tables((table for share in admin.shares() for table in admin.tables(share.name)), account)


def show_finding(finding: Finding, show: Callable[[Text], None]) -> None:
    sign, style = SIGNS[finding.status]
    line = Text.assemble((sign, style), f" {finding.subject} ", (finding.check, "bold"), f": {finding.detail}")
    if finding.remedy:
        line.append(f"\n  → {finding.remedy}")
    show(line)
