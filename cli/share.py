"""`sluice share …`: list, show, add, remove."""

from typing import Annotated, Any

import typer

from cli.common.documents import share_document
from cli.common.errors import CommandError
from cli.common.options import Json, Replace, Yes, account_of, confirm, find, refuse_to_replace
from cli.common.output import Output

app = typer.Typer(no_args_is_help=True, help="Manage shares: groups of tables that you grant to recipients.")

Name = Annotated[str, typer.Argument(metavar="SHARE", help="Name of the share.")]


@app.command("list")
def list_shares(context: typer.Context, as_json: Json = False) -> None:
    """List all shares.

    Example: sluice share list
    """
    shares = account_of(context).admin().shares()
    columns = {"name": "NAME", "displayName": "DISPLAY NAME", "comment": "COMMENT"}
    Output(as_json=as_json).records([share_document(share) for share in shares], columns)


@app.command("show")
def show_share(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a share, the names of its schemas and tables, and the recipients who may read it.

    Example: sluice share show sales
    """
    admin = account_of(context).admin()
    share = admin.share(name)
    contents = {
        "schemas": [schema.name for schema in admin.schemas(name)],
        "tables": [f"{table.schema}.{table.name}" for table in admin.tables(name)],
        "recipients": [
            recipient.name
            for recipient in admin.recipients()
            if any(grant.share_id == share.id for grant in recipient.grants)
        ],
    }
    if not as_json and not contents["recipients"]:
        contents["recipients"] = [f"nobody yet; use `sluice grant RECIPIENT {share.name}`"]
    Output(as_json=as_json).record({**share_document(share), **contents})


@app.command("add")
def add_share(
    context: typer.Context,
    name: Name,
    display_name: Annotated[str | None, typer.Option(metavar="NAME", help="Human-readable name.")] = None,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="Description of the share.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Property of the share. Repeatable.")
    ] = None,
    share_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the share. Default: a new UUID.")
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Add a share.

    Example: sluice share add sales --comment "Orders and customers"
    """
    admin = account_of(context).admin()
    content: dict[str, Any] = {
        "display_name": display_name,
        "comment": comment,
        "properties": dict(_pair(text) for text in properties or ()),
    }
    if not replace:
        refuse_to_replace("share", name, find(admin.share, name), content)
    written = admin.put_share(name, share_id=share_id, **content)
    document = {"outcome": written.outcome, "share": share_document(written.value)}
    Output(as_json=as_json).done(f"Share '{written.value.name}' {written.outcome}.", document)


@app.command("remove")
def remove_share(
    context: typer.Context,
    name: Name,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also remove its schemas and tables from the catalog.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove a share and its grants. The files of its tables in S3 are kept.

    Example: sluice share remove sales --cascade
    """
    admin = account_of(context).admin()
    share = admin.share(name)
    count = len(admin.schemas(name))
    if count and not cascade:
        raise CommandError(f"The share '{share.name}' has {count} schemas. Use --cascade to remove them too.")
    confirm(f"Remove the share '{share.name}', its grants and its {count} schemas?", yes=yes)
    admin.remove_share(name, cascade=cascade)
    document = {"outcome": "removed", "share": share_document(share)}
    Output(as_json=as_json).done(f"Share '{share.name}' removed.", document)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CommandError(f"'{text}' is not a property. Expected KEY=VALUE.")
    return key, value
