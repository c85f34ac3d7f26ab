"""`sluice init` and `sluice apply`: the catalog as a whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cli.commands.common import Json, Yes, account_of, confirm
from cli.commands.doctor import require_passed
from cli.output import Output

if TYPE_CHECKING:
    from cli.apply import Change

SIGNS = {"add": ("+", "green"), "update": ("~", "yellow"), "remove": ("-", "red")}


def init(
    context: typer.Context,
    rotate_keys: Annotated[
        bool,
        typer.Option("--rotate-keys", help="Make a new key that signs page tokens; those of the last key stay good."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the catalog's DynamoDB table, unless it is there."""
    account = account_of(context)
    admin = account.admin()
    admin.create_catalog()
    if rotate_keys:
        admin.rotate_signing_keys()
    catalog = account.settings.catalog_table
    document = {"catalog": catalog, "region": account.region}
    Output(as_json=as_json).done(f"The catalog '{catalog}' in {account.region} is ready.", document)


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A YAML file of shares, and perhaps recipients.")],
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Also remove shares, schemas and tables that the file does not name; "
            "and recipients and grants, if it has a section `recipients`.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="First run `sluice doctor`'s checks on every table of the file.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make the catalog hold what a YAML file describes: shows the difference, then applies it.

    The file may be the reference server's. All of it is validated before anything is changed, and applying it again
    changes nothing. It asks before it removes something.

    Example: sluice apply shares.yaml --prune
    """
    from cli.apply import described_tables, plan
    from cli.shares_file import load

    output = Output(as_json=as_json)
    account = account_of(context)
    desired = load(file)
    if warning := desired.warning():
        output.note(f"Warning: {warning}")
    if check:
        otherwise = "Nothing was applied, because a check failed."
        require_passed(described_tables(desired), account, output, otherwise=otherwise)
    changes = plan(desired, account.admin(), prune=prune)
    if not as_json:
        for change in changes:
            output.print(_line(change))
    removals = sum(change.action == "remove" for change in changes)
    if removals and not dry_run:
        confirm(f"Remove what is marked with - from the catalog (entries: {removals})?", yes=yes)
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
