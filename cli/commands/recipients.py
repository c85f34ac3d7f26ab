"""`sluice recipient …`, `sluice grant` and `sluice revoke`: who may read which shares."""

from typing import Annotated

import typer

from cli.commands.common import Json, Replace, Yes, account_of, confirm, find, refuse_to_replace
from cli.documents import recipient_document
from cli.errors import CommandError
from cli.output import Output
from core.catalog import names

app = typer.Typer(no_args_is_help=True, help="Recipients: those who read shares, each with tokens of their own.")

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="The recipient's name.")]
Shares = Annotated[list[str], typer.Argument(metavar="SHARE...", help="The names of one or more shares.")]


@app.command("list")
def list_recipients(context: typer.Context, as_json: Json = False) -> None:
    """List all recipients with the shares they may read."""
    recipients = account_of(context).admin().recipients()
    columns = {"name": "NAME", "shares": "SHARES", "comment": "COMMENT"}
    Output(as_json=as_json).records([recipient_document(recipient) for recipient in recipients], columns)


@app.command("show")
def show_recipient(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a recipient, its shares and its tokens (never their secrets)."""
    document = recipient_document(account_of(context).admin().recipient(name))
    output = Output(as_json=as_json)
    if not as_json:
        document["tokens"] = [f"{token['id']}, expires {token['expiresAt']}" for token in document["tokens"]]
    output.record(document)


@app.command("add")
def add_recipient(
    context: typer.Context,
    name: Name,
    comment: Annotated[str | None, typer.Option(help="Who this is.")] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Add a recipient. It can read nothing until it is granted a share and issued a token.

    Example: sluice recipient add acme --comment "ACME, data team"
    """
    admin = account_of(context).admin()
    if not replace:
        refuse_to_replace("recipient", name, find(admin.recipient, name), {"comment": comment})
    written = admin.put_recipient(name, comment=comment)
    document = {"outcome": written.outcome, "recipient": recipient_document(written.value)}
    Output(as_json=as_json).done(f"Recipient '{written.value.name}' {written.outcome}.", document)


@app.command("remove")
def remove_recipient(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a recipient with its grants. All its tokens stop working."""
    admin = account_of(context).admin()
    recipient = admin.recipient(name)
    confirm(f"Remove the recipient '{recipient.name}' and its {len(recipient.tokens)} tokens?", yes=yes)
    admin.remove_recipient(name)
    document = {"outcome": "removed", "recipient": recipient_document(recipient)}
    Output(as_json=as_json).done(f"Recipient '{recipient.name}' removed.", document)


def grant(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Let a recipient read shares.

    Example: sluice grant acme sales marketing
    """
    admin = account_of(context).admin()
    for share in shares:
        admin.share(share)  # all must exist before any is granted
    outcomes = [admin.grant(name, share).outcome for share in shares]
    _report(Output(as_json=as_json), name, "granted", dict(zip(shares, outcomes, strict=True)))


def revoke(context: typer.Context, name: Name, shares: Shares, as_json: Json = False) -> None:
    """Take shares away from a recipient. Its tokens stay; it works within seconds.

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
