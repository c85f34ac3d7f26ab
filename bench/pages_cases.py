"""The cases of `make bench-pages`. Each runs in its own process and calls the query route without HTTP."""

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.lab.fresh import Clock, Figures
from bench.lab.query import query_function

WARM_UP = "warm-up"
PAGE = {"maxFiles": 10_000}
REPEATS = 5


def chain(table: str, tokens: str) -> Figures:
    """Read all pages, then the first and the last again, then a full listing. Write the page tokens to a file."""
    query = query_function()
    _read(query(WARM_UP, PAGE).body)
    _read(query(table, PAGE).body)  # opens the table
    seconds: list[float] = []
    found: list[Mapping[str, str]] = [{}]
    while True:
        clock = Clock()
        _, end = _read(query(table, PAGE | found[-1]).body)
        seconds.append(clock.figures()["cpu_seconds"])
        if "nextPageToken" not in end:
            break
        found.append({"pageToken": end["nextPageToken"]})
    Path(tokens).write_text(json.dumps(found))

    def again(token: Mapping[str, str]) -> float:
        clock = Clock()
        _read(query(table, PAGE | token).body)
        return clock.figures()["cpu_seconds"]

    first = statistics.median(again(found[0]) for _ in range(REPEATS))
    repeated = statistics.median(again(found[-1]) for _ in range(REPEATS))
    _read(query(table, {}).body)
    clock = Clock()
    lines, _ = _read(query(table, {}).body)
    return {
        "first": first,
        "last": seconds[-1],
        "last_again": repeated,
        "pages": len(seconds),
        "all": sum(seconds),
        "listing": clock.figures()["cpu_seconds"],
        "lines": lines,
    }


def cold(table: str, tokens: str, page: str) -> Figures:
    """Read one page, the first of this process."""
    query = query_function()
    _read(query(WARM_UP, PAGE).body)
    token = json.loads(Path(tokens).read_text())[int(page)]
    clock = Clock()
    _read(query(table, PAGE | token).body)
    return clock.figures()


def _read(body: Iterable[bytes]) -> tuple[int, Mapping[str, str]]:
    """Return the number of lines, and the endStreamAction."""
    lines, last = 0, b""
    for block in body:
        lines += block.count(b"\n")
        last = block
    return lines, json.loads(last.splitlines()[-1]).get("endStreamAction", {})
