"""Reduces the statistics of files to their number of records, for answers that are too large otherwise."""

import re
from typing import Any

import orjson

from core.api.json import dump_line

NUM_RECORDS = "numRecords"
# How writers begin statistics. Matching this is much faster than parsing.
USUAL_START = re.compile(rf'(\{{"{NUM_RECORDS}":\d+)[,}}]', re.ASCII)


def reduced_statistics(stats: str | None) -> str | None:
    """Returns statistics with only the number of records, or None if the file has none."""
    if not stats:
        return None
    usual = USUAL_START.match(stats)
    # If the name appears again, only a parser knows whether it is a column.
    if usual is not None and stats.find(NUM_RECORDS, usual.end()) < 0:
        return usual[1] + "}"
    return _parsed(stats)


def _parsed(stats: str) -> str | None:
    try:
        document = orjson.loads(stats)
    except ValueError:
        return None
    number = document.get(NUM_RECORDS) if isinstance(document, dict) else None
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    return f'{{"{NUM_RECORDS}":{number}}}'


def reduced_lines(lines: bytes) -> bytes:
    """Reduces the statistics in lines that are already written, of either format."""
    return b"".join(_reduced_line(line) for line in lines.splitlines(keepends=True))


def _reduced_line(line: bytes) -> bytes:
    if b'"stats":"' not in line:
        return line
    document = orjson.loads(line)
    for fields in _file_fields(document):
        if isinstance(fields.get("stats"), str):
            fields["stats"] = reduced_statistics(fields["stats"])
            if fields["stats"] is None:
                del fields["stats"]
            return dump_line(document)
    return line


def _file_fields(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the objects of a line that may have statistics: a file, or the action in it."""
    (file,) = document.values()
    actions = file.get("deltaSingleAction", {}).values()
    return [file, *actions]
