"""How many columns are indexed, and the parser of the table property that names them."""

import re

# Delta writers collect statistics for this many columns by default.
INDEXED_COLUMNS = 32
# Each indexed column takes space in every chunk and in the root, which readers keep in memory.
MAX_INDEXED_COLUMNS = 2000
STATISTICS_COLUMNS = "delta.dataSkippingStatsColumns"
PART = r"(?:\s*`(?:[^`]|``)++`\s*|[^`.,]++)"
NAME = rf"{PART}(?:\.{PART})*"
NAMES = re.compile(rf"{NAME}(?:,{NAME})*")


def column_names(text: str) -> list[tuple[str, ...]]:
    """Parses a list such as "a, b.c, `d.e`" into paths. Returns an empty list if the text is malformed."""
    if not NAMES.fullmatch(text):
        return []
    return [tuple(map(_unquoted, re.findall(PART, name))) for name in re.findall(NAME, text)]


def _unquoted(part: str) -> str:
    name = part.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
