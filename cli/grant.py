"""`sluice grant` and `sluice revoke`: which shares a recipient may read."""

from typing import Annotated

import typer

from cli.common.errors import CommandError
from cli.common.options import Json, account_of
from cli.common.output import Output
from core.catalog import names

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Name of the recipient.")]
Shares = Annotated[list[str], typer.Argument(metavar="SHARE", help="Names of one or more shares.")]


def grant(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Let a recipient read one or more shares.

    Example: sluice grant acme sales marketing
    """
    admin = account_of(context).admin()
    for share in shares:
        admin.share(share)  # fail before the first grant if a share does not exist
    outcomes = [admin.grant(name, share).outcome for share in shares]
    _report(Output(as_json=as_json), name, "granted", dict(zip(shares, outcomes, strict=True)))


def revoke(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Stop a recipient from reading one or more shares, within seconds. Its tokens stay valid.

    Example: sluice revoke acme marketing
    """
    admin = account_of(context).admin()
    held = {names.key(granted.share) for granted in admin.recipient(name).grants}
    for share in shares:
        if names.key(share) not in held:
            raise CommandError(
                f"The recipient '{name}' has no grant on the share '{share}'. "
                f"`sluice recipient show {name}` lists its shares."
            )
    outcomes = [admin.revoke(name, share).outcome for share in shares]
    _report(Output(as_json=as_json), name, "revoked", dict(zip(shares, outcomes, strict=True)))


def _report(output: Output, recipient: str, changed: str, outcomes: dict[str, str]) -> None:
    reported = {share: "unchanged" if outcome == "unchanged" else changed for share, outcome in outcomes.items()}
    lines = "\n".join(f"Share '{share}' for '{recipient}': {outcome}." for share, outcome in reported.items())
    shares = [{"share": share, "outcome": outcome} for share, outcome in reported.items()]
    output.done(lines, {"recipient": recipient, "shares": shares})
