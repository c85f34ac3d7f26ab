"""`sluice table …`: list, show, add, remove."""

from typing import Annotated, Any

import typer

from cli.common.documents import table_document
from cli.common.errors import CommandError
from cli.common.options import Json, Replace, Yes, account_of, confirm, find, refuse_to_replace, table_name
from cli.common.output import Output
from cli.doctor.command import require_passed
from core.catalog.model import URL_ACCESS, Table
from core.storage.location import InvalidLocationError, S3Location

app = typer.Typer(no_args_is_help=True, help="Manage the Delta tables of a share.")

Name = Annotated[
    str, typer.Argument(metavar="SHARE.SCHEMA.TABLE", help="Name of the table, with its share and schema.")
]


@app.command("list")
def list_tables(
    context: typer.Context,
    share: Annotated[str | None, typer.Argument(metavar="SHARE", help="Name of a share. Default: all shares.")] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="List only the tables of this schema of the share.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the tables of a share, or of all shares.

    Example: sluice table list sales --schema retail
    """
    if schema is not None and share is None:
        raise typer.BadParameter("--schema needs the name of a share.")
    admin = account_of(context).admin()
    shares = [share] if share is not None else [every.name for every in admin.shares()]
    tables = [table for name in shares for table in admin.tables(name, schema)]
    columns = {"share": "SHARE", "schema": "SCHEMA", "name": "NAME", "location": "LOCATION"}
    Output(as_json=as_json).records([table_document(table) for table in tables], columns)


@app.command("show")
def show_table(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show the catalog entry of a table.

    Example: sluice table show sales.retail.orders
    """
    table = account_of(context).admin().table(*table_name(name))
    Output(as_json=as_json).record(table_document(table))


@app.command("add")
def add_table(
    context: typer.Context,
    name: Name,
    location: Annotated[str, typer.Option(metavar="URI", help="S3 folder that contains _delta_log: s3://bucket/path.")],
    table_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the table. Default: a new UUID.")
    ] = None,
    history_shared: Annotated[
        bool, typer.Option("--history", help="Let recipients read older versions and the change feed.")
    ] = False,
    start_version: Annotated[
        int, typer.Option(min=0, metavar="VERSION", help="First version of the shared history.")
    ] = 0,
    access_modes: Annotated[
        list[str] | None,
        typer.Option(
            "--access-mode",
            metavar="url|dir",
            help="url (signed URLs) or dir (directory access). Repeatable. Default: url.",
        ),
    ] = None,
    auxiliary_locations: Annotated[
        list[str] | None,
        typer.Option(
            "--auxiliary-location",
            metavar="URI",
            help="Another S3 folder with files of the table, for example of a shallow clone's source. Repeatable.",
        ),
    ] = None,
    staleness_seconds: Annotated[
        float,
        typer.Option(
            "--staleness",
            min=0,
            metavar="SECONDS",
            help="Seconds that a cached version may be served without checking the log.",
        ),
    ] = 0.0,
    role_arn: Annotated[
        str | None,
        typer.Option(
            "--role-arn", metavar="ARN", help="IAM role that can read the table. Default: the server's storage role."
        ),
    ] = None,
    external_id: Annotated[
        str | None, typer.Option(metavar="ID", help="External id for assuming the role of --role-arn.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option("--bucket-region", metavar="REGION", help="Region of the bucket. Default: the server's region."),
    ] = None,
    kms_key_arn: Annotated[
        str | None,
        typer.Option(
            "--kms-key-arn",
            metavar="ARN",
            help="KMS key that encrypts the files. Needed only for directory access.",
        ),
    ] = None,
    skip_checks: Annotated[
        bool, typer.Option("--skip-checks", help="Add the table without running the checks of `sluice doctor`.")
    ] = False,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Add a table to a schema, unless it fails a check of `sluice doctor`.

    Example: sluice table add sales.retail.orders --location s3://bucket/warehouse/orders
    """
    output = Output(as_json=as_json)
    share, schema, table = table_name(name)
    _check_locations(location, *(auxiliary_locations or ()))
    account = account_of(context)
    admin = account.admin()
    content: dict[str, Any] = {
        "location": location,
        "auxiliary_locations": tuple(auxiliary_locations or ()),
        "access_modes": tuple(access_modes or (URL_ACCESS,)),
        "history_shared": history_shared,
        "start_version": start_version,
        "staleness_seconds": staleness_seconds,
        "role_arn": role_arn,
        "external_id": external_id,
        "region": region,
        "kms_key_arn": kms_key_arn,
    }
    if not replace:
        refuse_to_replace("table", name, find(admin.table, share, schema, table), content)
    candidate = Table(name=table, schema=schema, share=share, share_id="", id="", **content)
    if not skip_checks:
        otherwise = "The table was not added because a check failed. Use --skip-checks to add it anyway."
        require_passed([candidate], account, output, otherwise=otherwise)
    written = admin.put_table(share, schema, table, table_id=table_id, **content)
    document = {"outcome": written.outcome, "table": table_document(written.value)}
    output.done(f"Table '{written.value.full_name}' {written.outcome}.", document)


@app.command("remove")
def remove_table(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a table from its share. Its files in S3 are kept.

    Example: sluice table remove sales.retail.orders
    """
    share, schema, table = table_name(name)
    admin = account_of(context).admin()
    removed = admin.table(share, schema, table)
    confirm(f"Remove the table '{removed.full_name}' from its share?", yes=yes)
    admin.remove_table(share, schema, table)
    document = {"outcome": "removed", "table": table_document(removed)}
    Output(as_json=as_json).done(f"Table '{removed.full_name}' removed.", document)


def _check_locations(*locations: str) -> None:
    for location in locations:
        try:
            S3Location.parse(location)
        except InvalidLocationError as error:
            raise CommandError(f"'{location}' is not an S3 location. Expected s3://bucket/path.") from error
