"""`sluice explain`: shows which files of a table a query lists, and why."""

import sys
from typing import Annotated

import typer

from cli.common.options import Json, account_of, table_name
from cli.common.output import Output, console


def explain(
    context: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="SHARE.SCHEMA.TABLE", help="Name of the table, with its share and schema.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="SQL", help="A SQL hint, as in `predicateHints`. Repeatable: all hints apply."),
    ] = None,
    json_hint: Annotated[
        str | None,
        typer.Option(
            "--json-predicate",
            metavar="JSON",
            help="A JSON hint, as in `jsonPredicateHints`. Applies together with --where.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="ROWS", help="A row limit, as in `limitHint`.")] = None,
    version: Annotated[
        int | None,
        typer.Option(min=0, metavar="VERSION", help="Read the table at this version. Default: the latest."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--at", metavar="TIMESTAMP", help="Read the table at this time, such as 2025-01-31T12:00:00Z."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain which files of a table a query lists, and why.

    Evaluates every file with the code that answers queries. A file is **left out** by its partition values or its
    statistics, or it is **kept**. A kept file is **unknown** if it has no statistics for a column of the predicate, or
    if no part of the predicate can be used. For each part of the predicate, the output says whether partition values or
    statistics were used, or why the part was ignored. An invalid hint is ignored, as on the server.

    If a server that does not have the table in memory would use an index, so does this command, and the output says
    why. Files in chunks that cannot match are **left out unread**. The output shows what was read of the index, and how
    long each step took.

    Example: sluice explain sales.retail.orders --where "day = '2025-01-31' AND amount > 100" --limit 1000
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("--version and --at cannot be used together.")
    from cli.explain.show import chart, document
    from cli.explain.table import explain_query
    from core.api.requests.query import QueryRequest

    output = Output(as_json=as_json)
    account = account_of(context)
    shared = account.admin().table(*table_name(table))
    query = QueryRequest(
        tuple(where or ()), json_predicate_hints=json_hint, limit_hint=limit, version=version, timestamp=timestamp
    )
    with console(sys.stderr).status("Reading the table") as status:
        funnel = explain_query(account, shared, query, status.update)
    if output.as_json:
        output.document(document(shared.full_name, funnel))
    else:
        for content in chart(shared.full_name, funnel):
            output.print(content)
