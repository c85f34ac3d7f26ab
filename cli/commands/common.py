"""What the admin commands share: their options, names with dots, questions before something goes, and durations."""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import typer

from cli.account import Account
from cli.differences import differences_of
from cli.errors import CommandError
from core.catalog.errors import EntryNotFoundError

T = TypeVar("T")

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Replace: TypeAlias = Annotated[
    bool, typer.Option("--replace", help="Change it if it exists already with other values.")
]

SECONDS = {"d": 86_400, "h": 3600, "m": 60}


def account_of(context: typer.Context) -> Account:
    return cast("Account", context.obj)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something goes. Where nobody can answer, `--yes` must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nobody can be asked here: run it again with --yes.")
    typer.confirm(question, abort=True, err=True)


def schema_name(name: str) -> tuple[str, str]:
    """A share's name may contain dots, a schema's may not."""
    share, _, schema = name.rpartition(".")
    if not share or not schema:
        raise CommandError(f"'{name}' does not name a schema: write share.schema.")
    return share, schema


def table_name(name: str) -> tuple[str, str, str]:
    parts = name.rsplit(".", 2)
    if len(parts) != 3 or not all(parts):
        raise CommandError(f"'{name}' does not name a table: write share.schema.table.")
    return parts[0], parts[1], parts[2]


def find(read: Callable[..., T], *names: str) -> T | None:
    try:
        return read(*names)
    except EntryNotFoundError:
        return None


def refuse_to_replace(kind: str, name: str, current: object | None, arguments: Mapping[str, Any]) -> None:
    if current is not None and (different := list(differences_of(current, arguments))):
        keys = ", ".join(difference.key for difference in different)
        raise CommandError(f"The {kind} '{name}' exists already with another {keys}: give --replace to change it.")


def seconds(duration: str) -> int:
    """`90d`, `12h` or `30m`."""
    match = re.fullmatch(r"(\d{1,6})([dhm])", duration)
    if not match:
        raise CommandError(f"'{duration}' is not a duration: write it as 90d, 12h or 30m.")
    return int(match[1]) * SECONDS[match[2]]
