"""`sluice recipient …`: list, show, add, remove."""

import time
from typing import Annotated

import typer

from cli.common.documents import recipient_document, timestamp
from cli.common.options import Json, Replace, Yes, account_of, confirm, find, refuse_to_replace
from cli.common.output import Output
from core.catalog.model import Token

app = typer.Typer(no_args_is_help=True, help="Manage recipients: who can read shares, each with their own tokens.")

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Name of the recipient.")]


@app.command("list")
def list_recipients(context: typer.Context, as_json: Json = False) -> None:
    """List all recipients and the shares that they may read.

    Example: sluice recipient list
    """
    recipients = account_of(context).admin().recipients()
    columns = {"name": "NAME", "shares": "SHARES", "comment": "COMMENT"}
    Output(as_json=as_json).records([recipient_document(recipient) for recipient in recipients], columns)


@app.command("show")
def show_recipient(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a recipient with its shares and token ids. Secrets are never shown.

    Example: sluice recipient show acme
    """
    recipient = account_of(context).admin().recipient(name)
    document = recipient_document(recipient)
    output = Output(as_json=as_json)
    if not as_json:
        document["tokens"] = [_expiry(token) for token in recipient.tokens]
    output.record(document)


@app.command("add")
def add_recipient(
    context: typer.Context,
    name: Name,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="Description of the recipient.")] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Add a recipient. It can read nothing until you grant it a share and issue a token.

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
    """Remove a recipient and its grants. All its tokens stop working.

    Example: sluice recipient remove acme
    """
    admin = account_of(context).admin()
    recipient = admin.recipient(name)
    confirm(f"Remove the recipient '{recipient.name}' and its {len(recipient.tokens)} tokens?", yes=yes)
    admin.remove_recipient(name)
    document = {"outcome": "removed", "recipient": recipient_document(recipient)}
    Output(as_json=as_json).done(f"Recipient '{recipient.name}' removed.", document)


def _expiry(token: Token) -> str:
    verb = "expired" if token.expires_at <= time.time() else "expires"
    return f"{token.id}, {verb} {timestamp(token.expires_at)}"
