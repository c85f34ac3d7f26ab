"""Reads `predicateHints`: each string is a boolean expression in Spark's SQL, and all of them hold.

What cannot be used is told apart here, before the parser is even imported.
"""

from collections.abc import Sequence

from core.pruning.expressions import Expression, Unknown

# Of all hints of a request together: more takes longer to read than pruning by it would save.
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
            reason = f"there are more than {MAX_HINTS} hints, or {MAX_CHARACTERS} characters in them"
            expressions.append(Unknown(rest, reason))
            break
        if "\0" in hint:
            expressions.append(Unknown(f"{hint:.80}", "it is no SQL"))
        elif "\\" in hint:  # what it escapes is not the same in all of Spark's settings
            expressions.append(Unknown(f"{hint:.80}", "it has a backslash"))
        else:
            readable.append(hint)
    if readable:
        from core.pruning.parsing.spark_sql import SqlReader  # takes 0.4 s, and most queries come without a hint

        reader = SqlReader()
        expressions[:0] = [reader.read(hint) for hint in readable]
    return expressions
