"""`sluice apply`: makes the catalog match a YAML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cli.common.options import Json, Yes, account_of, confirm
from cli.common.output import Output
from cli.doctor.command import require_passed

if TYPE_CHECKING:
    from cli.apply.plan import Change

SIGNS = {"add": ("+", "green"), "update": ("~", "yellow"), "remove": ("-", "red")}


def apply(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="YAML file with shares and, optionally, recipients.")
    ],
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Also remove shares, schemas and tables that are not in the file, "
            "and recipients and grants if the file has a `recipients` section.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without applying them.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Apply only if every table of the file passes the checks of `sluice doctor`."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make the catalog match a YAML file: show the differences, then apply them.

    The file may be a configuration file of the reference server. The whole file is validated before anything changes.
    Applying it again changes nothing. The command asks before it removes entries.

    Example: sluice apply shares.yaml --prune
    """
    from cli.apply.plan import described_tables, plan
    from cli.apply.shares_file import load
    from cli.apply.table_ids import TableIds

    output = Output(as_json=as_json)
    account = account_of(context)
    desired = load(file)
    if warning := desired.warning():
        output.note(f"Warning: {warning}")
    for warning in TableIds(desired.shares).warnings:
        output.note(f"Warning: {warning}")
    if check:
        otherwise = "Nothing was applied because a check failed."
        require_passed(described_tables(desired), account, output, otherwise=otherwise)
    changes = plan(desired, account.admin(), prune=prune)
    if not as_json:
        for change in changes:
            output.print(_line(change))
    removals = sum(change.action == "remove" for change in changes)
    if removals and not dry_run:
        confirm(f"Remove the entries marked with - from the catalog ({removals})?", yes=yes)
    for change in changes if not dry_run else ():
        change.write()
    outcome = "Changes that would be made" if dry_run else "Changes made"
    document = {"applied": not dry_run, "changes": [_document(change) for change in changes]}
    output.done(f"{outcome}: {len(changes)}." if changes else "Nothing to do.", document)


def _line(change: "Change") -> Text:
    sign, style = SIGNS[change.action]
    line = Text(f"{sign} {change.kind} {change.name}", style=style)
    for difference in change.differences:
        before = "" if change.action == "add" else f"{_value(difference.before)} → "
        line.append(f"\n    {difference.key}: {before}{_value(difference.after)}")
    return line


def _value(value: Any) -> str:
    return "(none)" if value is None else str(list(value) if isinstance(value, tuple) else value)


def _document(change: "Change") -> dict[str, Any]:
    return {
        "action": change.action,
        "kind": change.kind,
        "name": change.name,
        "differences": [
            {"key": difference.key, "before": difference.before, "after": difference.after}
            for difference in change.differences
        ],
    }
