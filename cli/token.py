"""`sluice token …`: issues bearer tokens as profile files, rotates and revokes them."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO
from urllib.parse import urlsplit

import typer

from cli.common.documents import profile_document, token_document
from cli.common.errors import CommandError
from cli.common.options import Json, Yes, account_of, confirm, seconds
from cli.common.output import Output
from core.catalog.model import Token

if TYPE_CHECKING:
    from core.catalog.admin import CatalogAdmin

DEFAULT_TOKEN_SECONDS = 90 * 86_400

app = typer.Typer(
    no_args_is_help=True, help="Manage the bearer tokens of recipients. A token is shown once, in its profile file."
)

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Name of the recipient.")]
TokenId = Annotated[str | None, typer.Argument(metavar="TOKEN_ID", help="Id of the token, from `sluice token list`.")]
Expires = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Lifetime of the token, such as 90d, 12h or 30m. Default: 90d, or SLUICE_MAX_TOKEN_DAYS if that is less.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        envvar="SLUICE_ENDPOINT", metavar="URL", help="URL of the server, such as https://host/delta-sharing."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the profile to this new file (mode 0600) instead of stdout."),
]


@app.command("list")
def list_tokens(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPIENT", help="Name of a recipient. Default: all recipients.")
    ] = None,
    expiring: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="List only tokens that have expired or expire within this time, such as 30d, the next one first.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the ids and the expiry of tokens, and mark those that have expired. Secrets are never shown.

    Example: sluice token list --expiring 30d
    """
    now = time.time()
    before = None if expiring is None else now + seconds(expiring)
    admin = account_of(context).admin()
    recipients = admin.recipients() if name is None else [admin.recipient(name)]
    tokens = [(recipient, token) for recipient in recipients for token in recipient.tokens]
    if before is not None:
        tokens = [entry for entry in tokens if entry[1].expires_at <= before]
        tokens.sort(key=lambda entry: entry[1].expires_at)
    records = [
        {"recipient": recipient.name, **token_document(token), "expired": token.expires_at <= now}
        for recipient, token in tokens
    ]
    columns = {"recipient": "RECIPIENT", "id": "ID", "createdAt": "CREATED", "expiresAt": "EXPIRES", "state": "STATE"}
    if not as_json:
        records = [{**record, "state": "expired" if record["expired"] else "valid"} for record in records]
    Output(as_json=as_json).records(records, columns)


@app.command("issue")
def issue_token(
    context: typer.Context,
    name: Name,
    expires: Expires = None,
    endpoint: Endpoint = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Issue a token and print its profile. Sluice does not store the token, and cannot show it again.

    Example: sluice token issue acme --expires 90d --out acme.share
    """
    admin = account_of(context).admin()
    lifetime = _lifetime(expires, admin)
    _hand_out(lambda: admin.issue_token(name, lifetime_seconds=lifetime), name, endpoint, out, Output(as_json=as_json))


@app.command("rotate")
def rotate_token(
    context: typer.Context,
    name: Name,
    token_id: TokenId = None,
    grace: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long the old token stays valid, or all old tokens if none is named."
        ),
    ] = "24h",
    expires: Expires = None,
    endpoint: Endpoint = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Issue a new token and let the old one expire after a grace period.

    Example: sluice token rotate acme --grace 24h --out acme.share
    """
    admin = account_of(context).admin()
    lifetime, grace_seconds = _lifetime(expires, admin), seconds(grace)
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
    every: Annotated[bool, typer.Option("--all", help="Revoke all tokens of the recipient.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Revoke one token of a recipient, or all. A revoked token stops working within seconds.

    Example: sluice token revoke acme --all
    """
    if (token_id is None) is not every:
        raise CommandError("Name one token, from `sluice token list`, or use --all.")
    admin = account_of(context).admin()
    ids = [token.id for token in admin.recipient(name).tokens if every or token.id == token_id]
    if not ids:
        raise CommandError(f"The recipient '{name}' has no {'tokens' if every else f'token {token_id}'}.")
    confirm(f"Revoke {len(ids)} tokens of '{name}'?", yes=yes)
    for revoked in ids:
        admin.revoke_token(name, revoked)
    Output(as_json=as_json).done(f"Revoked: {', '.join(ids)}.", {"recipient": name, "revoked": ids})


def _lifetime(expires: str | None, admin: "CatalogAdmin") -> int:
    return min(DEFAULT_TOKEN_SECONDS, admin.max_token_seconds) if expires is None else seconds(expires)


def _hand_out(
    issue: Callable[[], tuple[Token, str]], recipient: str, endpoint: str | None, out: Path | None, output: Output
) -> None:
    """Opens the profile file before issuing the token, so an unwritable path cannot lose a token."""
    url = _checked_endpoint(endpoint)
    if out is None:
        token, secret = issue()
        profile = profile_document(url, secret, token)
        output.note("Save this profile: the token is not shown again.")
        output.document(
            {"recipient": recipient, "token": token_document(token), "profile": profile} if output.as_json else profile
        )
        return
    with _new_private_file(out) as file:
        token, secret = issue()
        json.dump(profile_document(url, secret, token), file, indent=2)
    document = {"recipient": recipient, "token": token_document(token), "profileFile": str(out)}
    output.done(f"Wrote {out}. It holds the only copy of the token.", document)


def _checked_endpoint(endpoint: str | None) -> str:
    if not endpoint:
        raise CommandError("The profile needs the server's URL. Use --endpoint or set SLUICE_ENDPOINT.")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CommandError(f"'{endpoint}' is not an endpoint URL. Expected https://host/delta-sharing.")
    return endpoint.rstrip("/")


@contextmanager
def _new_private_file(path: Path) -> Iterator[TextIO]:
    """Creates a file with mode 0600. Removes it if the block fails."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise CommandError(f"{path} already exists. Choose another file or remove it first.") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            yield file
    except BaseException:
        path.unlink()
        raise
