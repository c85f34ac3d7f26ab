"""What a build did, for a person and for a script."""

from collections.abc import Iterator
from typing import Any

from rich.filesize import decimal
from rich.text import Text

from cli.index.build import Failure, Result
from pipeline.costs import build_cost, query_costs

UP_TO_DATE = "up to date"
SENTENCES = {
    UP_TO_DATE: "is up to date, at version {}",
    "later": "was brought up to version {}",
    "built": "was indexed at version {}",
    "lost": "was indexed by another build meanwhile, at version {}",
}


def result_lines(result: Result) -> Iterator[Text]:
    if isinstance(result, Failure):
        yield Text.assemble(("✗", "red"), f" {result.table} ", ("failed", "bold"), f": {result.reason}")
        return
    head, what = result.head, SENTENCES[result.what].format(result.head.version)
    yield Text.assemble(("✓", "green"), f" {result.table} ", (what, "bold"), f" ({result.seconds:.1f} s)")
    if result.what == UP_TO_DATE:
        return
    full, selective = map(dollars, query_costs(head))
    yield Text(f"  files: {head.files:,}, chunks: {head.chunks:,}, size: {decimal(head.content_bytes)}")
    yield Text(f"  this build: {result.units:,} write units, about {dollars(build_cost(result.units))}")
    yield Text(f"  a query of all files: about {full}, of a few: about {selective}")


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


def dollars(amount: float) -> str:
    """With two digits that say something, however little it is."""
    digits = next((place for place in range(2, 9) if amount >= 10 ** (1 - place)), 9)
    return f"${amount:.{digits}f}"
