"""Parses `predicateHints`: strings of boolean expressions in Spark SQL, joined by AND.

Hints that cannot be used are rejected here, before the parser is imported.
"""

from collections.abc import Sequence

from core.pruning.expressions import Expression, Unknown

# For all hints of a request together. Longer hints take more time to parse than pruning saves.
MAX_CHARACTERS = 16 * 1024
MAX_HINTS = 100


def parse_sql_hints(hints: Sequence[str]) -> list[Expression]:
    expressions: list[Expression] = []
    readable: list[str] = []
    characters = 0
    for number, hint in enumerate(hints):
        characters += len(hint)
        if characters > MAX_CHARACTERS or number == MAX_HINTS:
            rest = f"{len(hints) - number} hints from {hint:.80}"
            reason = f"the hints exceed {MAX_HINTS} hints or {MAX_CHARACTERS} characters"
            expressions.append(Unknown(rest, reason))
            break
        if "\0" in hint:
            expressions.append(Unknown(f"{hint:.80}", "it contains a NUL character"))
        elif "\\" in hint:  # its meaning depends on Spark's settings
            expressions.append(Unknown(f"{hint:.80}", "it contains a backslash"))
        else:
            readable.append(hint)
    if readable:
        from core.pruning.parsing.spark_sql import SqlReader  # takes 0.4 s to import, and most queries have no hints

        reader = SqlReader()
        expressions[:0] = [reader.read(hint) for hint in readable]
    return expressions
