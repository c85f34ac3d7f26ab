"""The `sluice` command. Registers all subcommands and turns every failure into one sentence and an exit code.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from cli import grant, init, recipient, schema, share, table, token
from cli.apply import command as apply
from cli.common import account
from cli.common.errors import CommandError
from cli.common.help import without_type_names
from cli.common.output import Output
from cli.demo import command as demo
from cli.doctor import command as doctor
from cli.explain import command as explain
from cli.index import command as index
from cli.invoke import command as invoke
from cli.serve import command as serve
from core.catalog.errors import CatalogError, EntryNotFoundError
from core.settings import InvalidSettingError

CATALOG_PANEL = "The catalog"
TABLES_PANEL = "Shared tables"
ACCOUNT_PANEL = "The AWS account"

app = typer.Typer(name="sluice", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")
app.command()(serve.serve)
app.command()(demo.demo)
app.command()(invoke.invoke)
app.command(rich_help_panel=CATALOG_PANEL)(init.init)
app.command(rich_help_panel=CATALOG_PANEL)(apply.apply)
app.add_typer(share.app, name="share", rich_help_panel=CATALOG_PANEL)
app.add_typer(schema.app, name="schema", rich_help_panel=CATALOG_PANEL)
app.add_typer(table.app, name="table", rich_help_panel=CATALOG_PANEL)
app.add_typer(recipient.app, name="recipient", rich_help_panel=CATALOG_PANEL)
app.command(rich_help_panel=CATALOG_PANEL)(grant.grant)
app.command(rich_help_panel=CATALOG_PANEL)(grant.revoke)
app.add_typer(token.app, name="token", rich_help_panel=CATALOG_PANEL)
app.command(rich_help_panel=TABLES_PANEL)(doctor.doctor)
app.command(rich_help_panel=TABLES_PANEL)(explain.explain)
app.add_typer(index.app, name="index", rich_help_panel=TABLES_PANEL)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sluice {version('sluice-sharing')}")
        raise typer.Exit


@app.callback()
def sluice(
    context: typer.Context,
    catalog_table: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="TABLE",
            help="DynamoDB table of the catalog. Default: SLUICE_CATALOG_TABLE, then sluice-catalog.",
            rich_help_panel=ACCOUNT_PANEL,
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="REGION",
            help="AWS region. Default: AWS_REGION, then your profile's.",
            rich_help_panel=ACCOUNT_PANEL,
        ),
    ] = None,
    endpoint_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Custom AWS endpoint. Default: AWS_ENDPOINT_URL.", rich_help_panel=ACCOUNT_PANEL
        ),
    ] = None,
    aws_profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Profile of your AWS configuration. Default: AWS_PROFILE.",
            rich_help_panel=ACCOUNT_PANEL,
        ),
    ] = None,
    index_table: Annotated[
        str | None,
        typer.Option(
            "--index",
            metavar="TABLE",
            help="DynamoDB table of the indexes. Default: SLUICE_INDEX_TABLE, then none.",
            rich_help_panel=ACCOUNT_PANEL,
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Share Delta tables in S3 with the Delta Sharing protocol.

    New here? `sluice demo` shows a share from both sides in a minute, without an AWS account.

    Commands use your AWS credentials and region, like the AWS CLI. To use the embedded AWS of a running `sluice serve`
    instead, see its option `--admin-env-out`.

    Options of the account come before the command: `sluice --region eu-west-1 share list`.

    With `--json`, a command prints one JSON document to stdout, or `{"error": "…"}` if it fails.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
    """
    context.obj = account.Account(catalog_table, region, endpoint_url, aws_profile, index_table)


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code."""
    output = Output(as_json="--json" in arguments)
    try:
        without_type_names(typer.main.get_command(app))(args=list(arguments), prog_name="sluice")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except CommandError as error:
        output.fail(error.message, error.details)
    except EntryNotFoundError as error:
        output.fail(f"{_sentence(error.message)} Check the name, the catalog (--catalog) and the region (--region).")
    except CatalogError as error:
        output.fail(_sentence(error.message))
    except (BotoCoreError, ClientError) as error:
        output.fail(account.explain(error))
    except InvalidSettingError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    return 1


def _sentence(message: str) -> str:
    """Turns a catalog error, such as `share 'x' does not exist`, into a sentence."""
    return f"{message[:1].upper()}{message[1:]}."


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
