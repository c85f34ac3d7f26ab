"""The result of a build as text and as a JSON document."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from cli.index.build import Failure, Result
from pipeline.costs import build_cost, query_costs
from pipeline.report import outcome_details, outcome_sentence


def result_lines(result: Result) -> Iterator[Text]:
    if isinstance(result, Failure):
        yield Text.assemble(("✗", "red"), f" {result.table} ", ("failed", "bold"), f": {result.reason}")
        return
    sentence = (outcome_sentence(result), "bold")
    yield Text.assemble(("✓", "green"), f" {result.table} ", sentence, f" ({result.seconds:.1f} s)")
    yield from map(Text, outcome_details(result))


def result_document(result: Result) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"table": result.table, "outcome": "failed", "error": result.reason}
    head = result.head
    full, selective = query_costs(head)
    return {
        "table": result.table,
        "outcome": result.what,
        "version": head.version,
        "files": head.files,
        "chunks": head.chunks,
        "bytes": head.content_bytes,
        "seconds": result.seconds,
        "writeUnits": result.units,
        "dollars": {"build": build_cost(result.units), "fullQuery": full, "selectiveQuery": selective},
    }
