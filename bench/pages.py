"""Measures pages of 10,000 files: the first, the last, and all of them against a full listing.

Tables of 100k and 1M files, read from a log with row groups of 50,000 rows, from a log with one row group, and from an
index. All figures are CPU seconds of the process that answers, without HTTP. `make bench-pages` takes five minutes.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.lab.aws import Lab, running_lab
from bench.lab.fresh import fresh
from bench.pages_cases import WARM_UP
from bench.report import Result, write
from bench.tables import CLASSIC, Shape

TABLES = {"100k": 100_000, "1M": 1_000_000}
SHAPES = {"row groups": CLASSIC, "one row group": Shape(row_group=1_000_000)}
INDEX_VARIABLE = "SLUICE_INDEX_TABLE"
MAX_LAST, MAX_ALL = 1.5, 2.0


def measured(lab: Lab, table: str, name: str, *, index: bool = False) -> Iterator[Result]:
    environment = dict(lab.environment)
    if not index:
        del environment[INDEX_VARIABLE]
    with tempfile.TemporaryDirectory() as scratch:
        tokens = str(Path(scratch) / "tokens")
        warm = fresh("bench.pages_cases:chain", table, tokens, environment=environment)
        first, last = (
            fresh("bench.pages_cases:cold", table, tokens, page, environment=environment)["cpu_seconds"]
            for page in ("0", str(int(warm["pages"]) - 1))
        )
    yield Result(f"{name}: first page", round(warm["first"], 3), "s")
    yield Result.at_most(f"{name}: last page takes", round(warm["last"] / warm["first"], 2), "x", MAX_LAST)
    yield Result(f"{name}: last page again takes", round(warm["last_again"] / warm["first"], 2), "x")
    yield Result(f"{name}: first page, cold", round(first, 3), "s")
    yield Result.at_most(f"{name}: last page, cold, takes", round(last / first, 2), "x", MAX_LAST)
    yield Result(f"{name}: full listing", round(warm["listing"], 2), "s")
    yield Result.at_most(f"{name}: all pages take", round(warm["all"] / warm["listing"], 2), "x", MAX_ALL)


def results(lab: Lab) -> Iterator[Result]:
    lab.share_table(WARM_UP, 100)
    for size, files in TABLES.items():
        for shape_name, shape in SHAPES.items():
            table = f"{size}-{shape_name.replace(' ', '-')}"
            lab.share_table(table, files, shape)
            yield from measured(lab, table, f"{size}, log with {shape_name}")
        indexed = f"{size}-{next(iter(SHAPES)).replace(' ', '-')}"
        fresh("bench.listing_cases:build", indexed, environment=lab.environment | lab.owner)
        yield from measured(lab, indexed, f"{size}, index", index=True)


def main() -> None:
    found = []
    with running_lab() as lab:
        for result in results(lab):
            print(f"{result.name}: {result.value:,.10g} {result.unit}", flush=True)
            found.append(result)
    write("pages", found)


if __name__ == "__main__":
    main()
