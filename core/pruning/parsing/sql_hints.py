"""Parses `predicateHints`: boolean expressions in Spark SQL, joined by AND.

Rejects oversized and ambiguous hints, and drops placeholders, before it imports the SQL parser.
"""

from collections.abc import Sequence

from core.pruning.expressions import Expression, Unknown

# For all hints of a request together. Longer hints take more time to parse than file skipping saves.
MAX_CHARACTERS = 16 * 1024
MAX_HINTS = 100
# DuckDB's client sends this word with every JSON hint. It is no predicate, even if the table has such a column.
PLACEHOLDER = "string"


def parse_sql_hints(hints: Sequence[str]) -> list[Expression]:
    expressions: list[Expression] = []
    accepted: list[str] = []
    characters = 0
    hints = [hint for hint in hints if hint != PLACEHOLDER]
    for number, hint in enumerate(hints):
        characters += len(hint)
        if characters > MAX_CHARACTERS or number == MAX_HINTS:
            rest = f"{len(hints) - number} hints, starting with {hint:.80}"
            reason = f"the hints exceed {MAX_HINTS} hints or {MAX_CHARACTERS} characters"
            expressions.append(Unknown(rest, reason))
            break
        if "\0" in hint:
            expressions.append(Unknown(f"{hint:.80}", "it contains a NUL character"))
        elif "\\" in hint:  # escapes depend on Spark's settings
            expressions.append(Unknown(f"{hint:.80}", "it contains a backslash"))
        else:
            accepted.append(hint)
    if accepted:
        from core.pruning.parsing.spark_sql import SqlParser  # takes 0.4 s to import, and most queries have no hints

        parser = SqlParser()
        expressions[:0] = [parser.parse(hint) for hint in accepted]
    return expressions
