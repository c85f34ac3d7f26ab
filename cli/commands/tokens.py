"""`sluice token …`: a recipient's bearer tokens, handed out as profile files."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO
from urllib.parse import urlsplit

import typer

from cli.commands.common import Json, Yes, account_of, confirm, seconds
from cli.documents import profile_document, token_document
from cli.errors import CommandError
from cli.output import Output
from core.catalog.model import Token

app = typer.Typer(no_args_is_help=True, help="Tokens: shown once, as the profile file that a client reads.")

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="The recipient's name.")]
TokenId = Annotated[str | None, typer.Argument(metavar="[TOKEN_ID]", help="As `sluice token list` shows it.")]
Expires = Annotated[str, typer.Option(metavar="DURATION", help="How long the token lives: 90d, 12h, 30m.")]
Endpoint = Annotated[
    str | None,
    typer.Option(envvar="SLUICE_ENDPOINT", metavar="URL", help="The server's URL, which the profile names."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the profile there (mode 0600) instead of to stdout. It must not exist."),
]


@app.command("list")
def list_tokens(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """List a recipient's tokens (never their secrets)."""
    tokens = account_of(context).admin().recipient(name).tokens
    columns = {"id": "ID", "createdAt": "CREATED", "expiresAt": "EXPIRES"}
    Output(as_json=as_json).records([token_document(token) for token in tokens], columns)


@app.command("issue")
def issue_token(
    context: typer.Context,
    name: Name,
    expires: Expires = "90d",
    endpoint: Endpoint = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Issue a token and print its profile. The secret is shown this once and kept nowhere.

    Example: sluice token issue acme --expires 90d --out acme.share
    """
    admin = account_of(context).admin()
    lifetime = seconds(expires)
    _hand_out(lambda: admin.issue_token(name, lifetime_seconds=lifetime), name, endpoint, out, Output(as_json=as_json))


@app.command("rotate")
def rotate_token(
    context: typer.Context,
    name: Name,
    token_id: TokenId = None,
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old token (all, if none is named) still works.")
    ] = "24h",
    expires: Expires = "90d",
    endpoint: Endpoint = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Issue a new token and let the old one end after a grace period.

    Example: sluice token rotate acme --grace 24h --out acme.share
    """
    admin = account_of(context).admin()
    lifetime, grace_seconds = seconds(expires), seconds(grace)
    _hand_out(
        lambda: admin.rotate_token(name, token_id, grace_seconds=grace_seconds, lifetime_seconds=lifetime),
        name,
        endpoint,
        out,
        Output(as_json=as_json),
    )


@app.command("revoke")
def revoke_token(
    context: typer.Context,
    name: Name,
    token_id: TokenId = None,
    every: Annotated[bool, typer.Option("--all", help="All of the recipient's tokens.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Revoke a token, or all of them. It stops working within seconds.

    Example: sluice token revoke acme --all
    """
    if (token_id is None) is not every:
        raise CommandError("Name one token, or give --all.")
    admin = account_of(context).admin()
    ids = [token.id for token in admin.recipient(name).tokens if every or token.id == token_id]
    if not ids:
        raise CommandError(f"The recipient '{name}' has no {'tokens' if every else f'token {token_id}'}.")
    confirm(f"Revoke {len(ids)} of the tokens of '{name}'?", yes=yes)
    for found in ids:
        admin.revoke_token(name, found)
    Output(as_json=as_json).done(f"Revoked: {', '.join(ids)}.", {"recipient": name, "revoked": ids})


def _hand_out(
    issue: Callable[[], tuple[Token, str]], recipient: str, endpoint: str | None, out: Path | None, output: Output
) -> None:
    """The place for the profile is opened before the token is made: no token is made and then lost."""
    url = _checked_endpoint(endpoint)
    if out is None:
        token, secret = issue()
        profile = profile_document(url, secret, token)
        output.note("This is the only time that the token is shown.")
        output.document(
            {"recipient": recipient, "token": token_document(token), "profile": profile} if output.as_json else profile
        )
        return
    with _new_private_file(out) as file:
        token, secret = issue()
        json.dump(profile_document(url, secret, token), file, indent=2)
    document = {"recipient": recipient, "token": token_document(token), "profileFile": str(out)}
    output.done(f"Wrote {out}: it holds the token, and is the only copy.", document)


def _checked_endpoint(endpoint: str | None) -> str:
    if not endpoint:
        raise CommandError("The profile needs the server's URL: give --endpoint, or set SLUICE_ENDPOINT.")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CommandError(f"'{endpoint}' is not an endpoint: write it as https://host/delta-sharing.")
    return endpoint.rstrip("/")


@contextmanager
def _new_private_file(path: Path) -> Iterator[TextIO]:
    """A file that only its owner can read, from its first byte on; removed again if it cannot be filled."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise CommandError(f"{path} exists already: name another file, or remove it first.") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            yield file
    except BaseException:
        path.unlink()
        raise
