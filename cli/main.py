"""The `sluice` command: puts its commands together, and turns every failure into one sentence and an exit code.

0: done; 1: it failed, and says why; 2: wrong usage; 130: interrupted.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from cli import account
from cli.commands import catalog, demo, doctor, explain, index, recipients, schemas, serve, shares, tables, tokens
from cli.errors import CommandError
from cli.output import Output
from core.catalog.errors import CatalogError
from core.settings import InvalidSettingError

ADMIN = "The catalog"
ACCOUNT = "The AWS account"

app = typer.Typer(name="sluice", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")
app.command()(serve.serve)
app.command()(demo.demo)
app.command(rich_help_panel=ADMIN)(catalog.init)
app.command(rich_help_panel=ADMIN)(catalog.apply)
app.add_typer(shares.app, name="share", rich_help_panel=ADMIN)
app.add_typer(schemas.app, name="schema", rich_help_panel=ADMIN)
app.add_typer(tables.app, name="table", rich_help_panel=ADMIN)
app.add_typer(recipients.app, name="recipient", rich_help_panel=ADMIN)
app.command(rich_help_panel=ADMIN)(recipients.grant)
app.command(rich_help_panel=ADMIN)(recipients.revoke)
app.add_typer(tokens.app, name="token", rich_help_panel=ADMIN)
app.command(rich_help_panel=ADMIN)(doctor.doctor)
app.command(rich_help_panel=ADMIN)(explain.explain)
app.add_typer(index.app, name="index", rich_help_panel=ADMIN)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sluice {version('sluice')}")
        raise typer.Exit


@app.callback()
def sluice(
    context: typer.Context,
    catalog_table: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            help="The catalog's DynamoDB table. If not given: SLUICE_CATALOG_TABLE, or sluice-catalog.",
            rich_help_panel=ACCOUNT,
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="The AWS region. If not given: AWS_REGION.", rich_help_panel=ACCOUNT)
    ] = None,
    endpoint_url: Annotated[
        str | None,
        typer.Option(help="Another endpoint than AWS's own. If not given: AWS_ENDPOINT_URL.", rich_help_panel=ACCOUNT),
    ] = None,
    aws_profile: Annotated[
        str | None,
        typer.Option(help="A profile of your AWS configuration. If not given: AWS_PROFILE.", rich_help_panel=ACCOUNT),
    ] = None,
    index_table: Annotated[
        str | None,
        typer.Option(
            "--index",
            help="The indexes' DynamoDB table. If not given: SLUICE_INDEX_TABLE, or none.",
            rich_help_panel=ACCOUNT,
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Share Delta tables from S3, serverless.

    The commands for the catalog work on the AWS account in the environment, as every AWS tool finds it. That may be
    the embedded one of a running `sluice serve`: see its `--admin-env-out`.

    With `--json` a command prints one JSON document on stdout, and `{"error": "…"}` there if it fails. (`explain` has a
    hint behind `--json`, so there it is `--output json`.)

    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    context.obj = account.Account(catalog_table, region, endpoint_url, aws_profile, index_table)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    output = Output(as_json=_wants_json(arguments))
    try:
        app(args=list(arguments), prog_name="sluice")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except CommandError as error:
        output.fail(error.message, error.details)
    except CatalogError as error:
        output.fail(error.message)
    except (BotoCoreError, ClientError) as error:
        output.fail(account.explain(error))
    except InvalidSettingError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    return 1


def _wants_json(arguments: Sequence[str]) -> bool:
    if _command(arguments) == "explain":  # its `--json` is a hint
        return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)
    return "--json" in arguments


def _command(arguments: Sequence[str]) -> str | None:
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            return argument
        if "=" not in argument:
            next(rest, None)  # its value: before a command, all options have one but those that end at once
    return None


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
