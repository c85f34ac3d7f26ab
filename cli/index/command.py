"""`sluice index`: builds the indexes of large tables, and shows how far they are behind."""

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

TABLE = "SHARE.SCHEMA.TABLE"


class _BuildByDefault(TyperGroup):
    """Reads `sluice index TABLE` as `sluice index build TABLE`. A table name has dots, so it cannot be a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx):
            args = [BUILD, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildByDefault,
    no_args_is_help=True,
    help="Build indexes of large tables. `sluice index TABLE` is short for `sluice index build TABLE`.",
)


@app.command(BUILD)
def build(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar=TABLE, help="Tables to index.")] = None,
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
    """Build the indexes of tables, or update existing ones.

    Queries use the old index until the new one is complete. An update writes only what changed. A large table needs
    Spark, which then runs on this machine. The exit code is 1 if a table could not be indexed.

    Example: sluice index sales.retail.orders
    """
    if bool(tables) == every:
        raise typer.BadParameter("Name one or more tables, or use --all, but not both.")
    from cli.index.build import Failure, build_indexes
    from cli.index.show import result_document, result_lines

    output, account = Output(as_json=as_json), account_of(context)
    chosen = _tables(account, tables)
    build_options = options.BuildOptions(full, not no_footers, write_rate, columns)
    results = []
    with until_stopped() as stop, contextlib.closing(build_indexes(account, chosen, build_options)) as building:
        for result in building:
            results.append(result)
            if not as_json:
                for line in result_lines(result):
                    output.print(line)
    if stop.requested:
        output.note("Stopped. Queries keep using the existing index. The next build removes the leftovers of this one.")
        raise typer.Exit(INTERRUPTED)
    if as_json:
        output.document([result_document(result) for result in results])
    if any(isinstance(result, Failure) for result in results):
        raise typer.Exit(1)


@app.command()
def status(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar=TABLE, help="Tables to show. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show the version of each index, how many commits it is behind the log, and whether queries use it.

    A lag is normal: queries replay newer commits over the index. An index that is not usable does not change answers:
    queries read the log instead. Tables with the same location share an index. The exit
    code is 1 if a log cannot be read.

    Example: sluice index status sales.retail.orders
    """
    from cli.index.status import COLUMNS, statuses

    output, account = Output(as_json=as_json), account_of(context)
    listed = list(statuses(account, _tables(account, tables)))
    if as_json:
        output.document([table.document() for table in listed])
    else:
        output.records([table.row(time.time()) for table in listed], COLUMNS)
        for note in filter(None, (table.note for table in listed)):
            output.note(note)
    if any(table.error for table in listed):
        raise typer.Exit(1)


def _tables(account: Account, names: list[str] | None) -> list[Table]:
    admin = account.admin()
    if names:
        return [admin.table(*table_name(name)) for name in names]
    return [table for share in admin.shares() for table in admin.tables(share.name)]
