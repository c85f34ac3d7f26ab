"""Options, qualified names, confirmations and durations that several commands use."""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import typer

from cli.common.account import Account
from cli.common.differences import differences_of
from cli.common.errors import CommandError
from core.catalog.errors import EntryNotFoundError

T = TypeVar("T")

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Replace: TypeAlias = Annotated[
    bool, typer.Option("--replace", help="Overwrite an existing entry that has different values.")
]

SECONDS = {"d": 86_400, "h": 3600, "m": 60}


def account_of(context: typer.Context) -> Account:
    return cast("Account", context.obj)


def confirm(question: str, *, yes: bool) -> None:
    """Asks before a removal. Requires `--yes` if stdin is not a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Cannot ask without a terminal. Run the command again with --yes.")
    typer.confirm(question, abort=True, err=True)


def schema_name(name: str) -> tuple[str, str]:
    """Splits at the last dot: share names may contain dots, schema names may not."""
    share, _, schema = name.rpartition(".")
    if not share or not schema:
        raise CommandError(f"'{name}' is not a schema name. Expected share.schema.")
    return share, schema


def table_name(name: str) -> tuple[str, str, str]:
    parts = name.rsplit(".", 2)
    if len(parts) != 3 or not all(parts):
        raise CommandError(f"'{name}' is not a table name. Expected share.schema.table.")
    return parts[0], parts[1], parts[2]


def find(read: Callable[..., T], *names: str) -> T | None:
    """Returns the entry, or None if it does not exist."""
    try:
        return read(*names)
    except EntryNotFoundError:
        return None


def refuse_to_replace(kind: str, name: str, current: object | None, arguments: Mapping[str, Any]) -> None:
    if current is not None and (different := list(differences_of(current, arguments))):
        keys = ", ".join(difference.key for difference in different)
        raise CommandError(f"The {kind} '{name}' already exists with another {keys}. Use --replace to change it.")


def seconds(duration: str) -> int:
    """Parses `90d`, `12h` or `30m`."""
    match = re.fullmatch(r"(\d{1,6})([dhm])", duration)
    if not match:
        raise CommandError(f"'{duration}' is not a duration. Expected a value such as 90d, 12h or 30m.")
    return int(match[1]) * SECONDS[match[2]]
