"""`sluice index`: the files of large tables packed in DynamoDB, where a query finds those that it needs."""

import contextlib
import time
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli.common.account import Account
from cli.common.options import Json, account_of, table_name
from cli.common.output import Output
from cli.common.signals import INTERRUPTED, until_stopped
from core.catalog.model import Table
from core.index.layout.columns import INDEXED_COLUMNS, MAX_INDEXED_COLUMNS
from pipeline import build_options as options

BUILD = "build"

Names = Annotated[list[str] | None, typer.Argument(metavar="[SHARE.SCHEMA.TABLE]...")]


class _BuildByDefault(TyperGroup):
    """`sluice index TABLE` is `sluice index build TABLE`. A table's name has dots, so it is never that of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx):
            args = [BUILD, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildByDefault,
    no_args_is_help=True,
    help="Indexes of large tables. `sluice index TABLE` is short for `sluice index build TABLE`.",
)


@app.command(BUILD)
def build(
    context: typer.Context,
    tables: Names = None,
    every: Annotated[bool, typer.Option("--all", help=options.ALL_HELP)] = False,
    full: Annotated[bool, typer.Option("--full", help=options.FULL_HELP)] = False,
    columns: Annotated[
        int, typer.Option(min=0, max=MAX_INDEXED_COLUMNS, metavar="N", help=options.COLUMNS_HELP)
    ] = INDEXED_COLUMNS,
    no_footers: Annotated[bool, typer.Option("--no-footers", help=options.NO_FOOTERS_HELP)] = False,
    write_rate: Annotated[
        float | None, typer.Option(min=options.MIN_WRITE_RATE, metavar="UNITS", help=options.WRITE_RATE_HELP)
    ] = None,
    as_json: Json = False,
) -> None:
    """Build the indexes of tables, or bring them up to date.

    Readers see the old index until the new one is whole. Where little has changed since, little is written. A large
    table takes Spark, which then runs on this machine. Exit code 1 if a table could not be indexed.

    Example: sluice index sales.retail.orders
    """
    if bool(tables) == every:
        raise typer.BadParameter("Name the tables, or give --all.")
    from cli.index.build import Failure, build_indexes
    from cli.index.show import result_document, result_lines

    output, account = Output(as_json=as_json), account_of(context)
    chosen = _tables(account, tables)
    wanted = options.BuildOptions(full, not no_footers, write_rate, columns)
    results = []
    with until_stopped() as stop, contextlib.closing(build_indexes(account, chosen, wanted)) as building:
        for result in building:
            results.append(result)
            if not as_json:
                for line in result_lines(result):
                    output.print(line)
    if stop.requested:
        output.note("Stopped. Readers keep the index that they have; a later build removes what this one left.")
        raise typer.Exit(INTERRUPTED)
    if as_json:
        output.document([result_document(result) for result in results])
    if any(isinstance(result, Failure) for result in results):
        raise typer.Exit(1)


@app.command()
def status(context: typer.Context, tables: Names = None, as_json: Json = False) -> None:
    """Show the indexes of these tables, or of all: which version they have, and how far the log is ahead of it.

    A lag is no fault: queries lay the newer commits over the index. Tables of one location have one index.
    """
    from cli.index.status import COLUMNS, statuses

    output, account = Output(as_json=as_json), account_of(context)
    found = list(statuses(account, _tables(account, tables)))
    if as_json:
        output.document([each.document() for each in found])
    else:
        output.records([each.row(time.time()) for each in found], COLUMNS)
        for error in filter(None, (each.error for each in found)):
            output.note(error)
    if any(each.error for each in found):
        raise typer.Exit(1)


def _tables(account: Account, names: list[str] | None) -> list[Table]:
    admin = account.admin()
    if names:
        return [admin.table(*table_name(name)) for name in names]
    return [table for share in admin.shares() for table in admin.tables(share.name)]
