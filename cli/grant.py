"""`sluice grant` and `sluice revoke`: which shares a recipient may read."""

from typing import Annotated

import typer

from cli.common.errors import CommandError
from cli.common.options import Json, account_of
from cli.common.output import Output
from core.catalog import names

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="The recipient's name.")]
Shares = Annotated[list[str], typer.Argument(metavar="SHARE...", help="The names of one or more shares.")]


def grant(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Let a recipient read shares.

    Example: sluice grant acme sales marketing
    """
    admin = account_of(context).admin()
    for share in shares:
        admin.share(share)  # fail before the first grant if a share does not exist
    outcomes = [admin.grant(name, share).outcome for share in shares]
    _report(Output(as_json=as_json), name, "granted", dict(zip(shares, outcomes, strict=True)))


def revoke(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Revoke shares from a recipient within seconds. Its tokens stay valid.

    Example: sluice revoke acme marketing
    """
    admin = account_of(context).admin()
    held = {names.key(granted.share) for granted in admin.recipient(name).grants}
    for share in shares:
        if names.key(share) not in held:
            raise CommandError(f"The recipient '{name}' has no grant on the share '{share}'.")
    outcomes = [admin.revoke(name, share).outcome for share in shares]
    _report(Output(as_json=as_json), name, "revoked", dict(zip(shares, outcomes, strict=True)))


def _report(output: Output, recipient: str, done: str, outcomes: dict[str, str]) -> None:
    words = {share: "unchanged" if outcome == "unchanged" else done for share, outcome in outcomes.items()}
    sentence = "\n".join(f"Share '{share}' for '{recipient}': {word}." for share, word in words.items())
    shares = [{"share": share, "outcome": word} for share, word in words.items()]
    output.done(sentence, {"recipient": recipient, "shares": shares})
