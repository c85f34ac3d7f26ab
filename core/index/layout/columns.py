"""How many columns an index has, and which of them a table's own properties name."""

import re

# As many as writers have statistics of, by default.
INDEXED_COLUMNS = 32
# Each takes room in every chunk and in the root, which a reader holds in memory.
MAX_INDEXED_COLUMNS = 2000
STATISTICS_COLUMNS = "delta.dataSkippingStatsColumns"
PART = r"(?:\s*`(?:[^`]|``)++`\s*|[^`.,]++)"
NAME = rf"{PART}(?:\.{PART})*"
NAMES = re.compile(rf"{NAME}(?:,{NAME})*")


def column_names(text: str) -> list[tuple[str, ...]]:
    """The names in a list such as "a, b.c, `d.e`", each as a path. None of them if it is no such list."""
    if not NAMES.fullmatch(text):
        return []
    return [tuple(map(_unquoted, re.findall(PART, name))) for name in re.findall(NAME, text)]


def _unquoted(part: str) -> str:
    name = part.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
