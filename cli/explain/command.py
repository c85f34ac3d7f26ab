"""`sluice explain`: shows which files of a table a query lists, and why."""

import sys
from typing import Annotated, Literal

import typer

from cli.common.options import account_of, table_name
from cli.common.output import Output, console


def explain(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.TABLE")],
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="SQL", help="A SQL hint, as in `predicateHints`. Repeatable: all of them hold."),
    ] = None,
    json_hint: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="JSON", help="A JSON hint, as in `jsonPredicateHints`. With --where: both hold."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="A limit, as in `limitHint`.")] = None,
    version: Annotated[int | None, typer.Option(min=0, help="The table at this version, if not its latest.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--at", metavar="TIMESTAMP", help="The table at this moment, such as 2025-01-31T12:00:00Z."),
    ] = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option("--output", help="Bars for a person, or one JSON document.")
    ] = "text",
) -> None:
    """Explain which files a query of a table lists, and why.

    It judges every file with the code that answers queries: left out by its partition values, left out by its
    statistics, or kept. Of the kept ones, **unknown** are those that may match only because nothing else is known: they
    have no statistics of a column that the predicate asks for, or no part of the predicate can be used. Each part is
    shown with what it was used by, or why it was ignored; a hint that cannot be read is no error to a server either.

    If the server would answer from an index, so does this: files of chunks that need not be read are **left out
    unread**. It shows what was read of the index, and how long each step took.

    Example: sluice explain sales.retail.orders --where "day = '2025-01-31' AND amount > 100" --limit 1000
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("--version and --at both say which version: give one of them.")
    from cli.explain.show import document, picture
    from cli.explain.table import explain_query
    from core.api.requests.query import QueryRequest

    output = Output(as_json=output_format == "json")
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
        for content in picture(shared.full_name, funnel):
            output.print(content)
