"""`sluice schema …`: list, show, add, remove."""

from typing import Annotated

import typer

from cli.common.documents import schema_document
from cli.common.errors import CommandError
from cli.common.options import Json, Yes, account_of, confirm, schema_name
from cli.common.output import Output
from core.catalog import names

app = typer.Typer(no_args_is_help=True, help="Manage schemas, which group the tables of a share.")

Name = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA", help="Name of the schema, with its share.")]


@app.command("list")
def list_schemas(
    context: typer.Context,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="Name of the share.")],
    as_json: Json = False,
) -> None:
    """List the schemas of a share.

    Example: sluice schema list sales
    """
    schemas = account_of(context).admin().schemas(share)
    columns = {"share": "SHARE", "name": "NAME"}
    Output(as_json=as_json).records([schema_document(schema) for schema in schemas], columns)


@app.command("show")
def show_schema(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a schema and the names of its tables.

    Example: sluice schema show sales.retail
    """
    share, schema = schema_name(name)
    admin = account_of(context).admin()
    tables = [table.name for table in admin.tables(share, schema)]
    (found,) = (entry for entry in admin.schemas(share) if names.key(entry.name) == names.key(schema))
    Output(as_json=as_json).record({**schema_document(found), "tables": tables})


@app.command("add")
def add_schema(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Add a schema to a share.

    Example: sluice schema add sales.retail
    """
    share, schema = schema_name(name)
    written = account_of(context).admin().put_schema(share, schema)
    document = {"outcome": written.outcome, "schema": schema_document(written.value)}
    full_name = f"{written.value.share}.{written.value.name}"
    Output(as_json=as_json).done(f"Schema '{full_name}' {written.outcome}.", document)


@app.command("remove")
def remove_schema(
    context: typer.Context,
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also remove its tables from the catalog.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove a schema from its share. The files of its tables in S3 are kept.

    Example: sluice schema remove sales.retail --cascade
    """
    share, schema = schema_name(name)
    admin = account_of(context).admin()
    count = len(admin.tables(share, schema))
    if count and not cascade:
        raise CommandError(f"The schema '{name}' has {count} tables. Use --cascade to remove them too.")
    confirm(f"Remove the schema '{name}' and its {count} tables?", yes=yes)
    admin.remove_schema(share, schema, cascade=cascade)
    document = {"outcome": "removed", "schema": {"name": schema, "share": share}}
    Output(as_json=as_json).done(f"Schema '{name}' removed.", document)
