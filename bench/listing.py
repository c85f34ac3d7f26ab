"""Measures full listings by a function that streams, as Lambda runs it, on tables of 1k, 10k, 100k and 1M files.

The function process has one core. An emulator of Lambda's Runtime API and the embedded AWS have the other. Session
tokens have 1,000 characters, as in AWS. A cold listing is the first one of a fresh process and its first byte includes
the start of the process; a warm one is the second. Shares of time are CPU times of a separate run. The link is either
free, or throttled as in AWS: 10 MB pass freely, the rest at 2 MB/s.

A million files with full statistics fit into the 200 MB of a streamed answer only if they are compressed strongly, so
the function may reduce statistics. The name of a result says which ones it has. The runs "full statistics" and
"strongly compressed" lift the limit. `make bench-listing` takes about ten minutes.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.lab.aws import Lab, running_lab
from bench.lab.fresh import fresh
from bench.lab.layers import LAYERS
from bench.lab.runtime_api import Link
from bench.lab.server import running_server
from bench.lab.streaming import Options
from bench.listing_cases import Listing, Run, run, server_memory
from bench.report import Result, write
from bench.tables import Shape
from cli.embedded.setup import owner_environment

TABLES = {"1k": 1000, "10k": 10_000, "100k": 100_000, "1M": 1_000_000}
LARGEST = "1M"
SHAPE = Shape(files_per_day=250)
SOURCES = ("log", "index")
INDEX_VARIABLE = "SLUICE_INDEX_TABLE"
CACHE_VARIABLE = "SLUICE_SNAPSHOT_CACHE_MB"
# The system counts CPU time in steps of 10 ms. Smaller listings take too few of them.
MEASURABLE_FILES = 100_000
TOKEN_CHARACTERS = 1000
LINK = Link(free_bytes=10_000_000, bytes_per_second=2_000_000)
# Seconds that the reference server takes for the largest table.
REFERENCE_SECONDS = 131
CACHE_MB = 128
MORE_MB = 150
AT_LEAST = {
    "1M, log, warm: lines": 80_000,
    "1M, log, warm: the reference server takes": 10,
    "1M, log, throttled: the reference server takes": 1.5,
}
AT_MOST = {
    **{f"1M, {source}, warm: first byte": 1000 for source in SOURCES},
    **{f"1M, {source}, cold: first byte": 4000 for source in SOURCES},
    **{f"1M, {source}: peak memory": 250 for source in SOURCES},
    "1M, log, throttled: peak memory": 250,
    **{f"1M, log, {run}: reduced statistics": 150 for run in ("warm", "throttled")},
    **{f"1M, log, {run}: full statistics": 240 for run in ("throttled", "strongly compressed")},
    "1M: memory of sluice serve after selective and full queries": CACHE_MB + MORE_MB,
}


def result(name: str, value: float, unit: str, digits: int = 1) -> Result:
    return Result.of(name, round(value, digits), unit, AT_LEAST, AT_MOST)


class Bench:
    def __init__(self, lab: Lab, function_core: int | None) -> None:
        self._lab = lab
        self._core = function_core

    def results(self) -> Iterator[Result]:
        for table, files in TABLES.items():
            self._lab.share_table(table, files, SHAPE)
            built = fresh("bench.listing_cases:build", table, environment=self._lab.environment | self._lab.owner)
            if built["files"] != files:
                raise ValueError("the index is incomplete")
            for source in SOURCES:
                yield from self._listings(table, source)
        yield from self._throttled()
        yield from self._full_statistics()
        yield from self._server()

    def _run(self, table: str, source: str, listings: int = 2, link: Link | None = None, **options: Any) -> Run:
        environment = dict(self._lab.environment)
        if source == "log":
            del environment[INDEX_VARIABLE]
        fixed = Options(core=self._core, token_characters=TOKEN_CHARACTERS, by_index=source == "index")
        ran = run(environment, table, replace(fixed, **options), link=link, listings=listings)
        if any(listing.lines != TABLES[table] for listing in ran.listings):
            raise ValueError("a listing is incomplete")
        return ran

    def _listings(self, table: str, source: str) -> Iterator[Result]:
        name = f"{table}, {source}"
        ran = self._run(table, source)
        cold, warm = ran.listings
        yield result(f"{name}, cold: start of the process", ran.init * 1000, "ms", 0)
        yield result(f"{name}, cold: first byte", (ran.init + cold.answer.first_byte) * 1000, "ms", 0)
        yield result(f"{name}, cold: total", ran.init + cold.answer.seconds, "s", 2)
        yield result(f"{name}, warm: first byte", warm.answer.first_byte * 1000, "ms", 0)
        yield result(f"{name}, warm: total", warm.answer.seconds, "s", 2)
        yield result(f"{name}, warm: lines", warm.lines / warm.answer.seconds, "lines/s", 0)
        if TABLES[table] >= MEASURABLE_FILES:
            yield result(f"{name}, warm: lines per second of CPU time", warm.lines / warm.cpu_seconds, "lines/s", 0)
        if table == LARGEST:
            yield result(
                f"{name}, warm: the reference server takes", REFERENCE_SECONDS / warm.answer.seconds, "x as long"
            )
        yield self._bytes(f"{name}, warm", warm)
        yield result(f"{name}: peak memory", ran.peak_mb, "MB", 0)
        yield from self._shares(table, source)

    def _shares(self, table: str, source: str) -> Iterator[Result]:
        """Yield the share of each layer in the CPU time of a warm listing."""
        with tempfile.TemporaryDirectory() as scratch:
            layers = self._run(table, source, layers_path=str(Path(scratch) / "layers")).layers
        for layer in LAYERS:
            yield result(f"{table}, {source}, share: {layer}", layers.get(layer, 0) / layers["all"] * 100, "%", 0)
        other = layers["all"] - sum(layers.get(layer, 0) for layer in LAYERS)
        yield result(f"{table}, {source}, share: other", other / layers["all"] * 100, "%", 0)

    def _throttled(self) -> Iterator[Result]:
        """List the largest table through a link like that of AWS, as Lambda would: it fits in 200 MB."""
        ran = self._run(LARGEST, "log", listings=1, link=LINK)
        (listing,) = ran.listings
        name = f"{LARGEST}, log, throttled"
        yield result(f"{name}: first byte", (ran.init + listing.answer.first_byte) * 1000, "ms", 0)
        yield result(f"{name}: total", listing.answer.seconds, "s", 1)
        yield result(f"{name}: lines", listing.lines / listing.answer.seconds, "lines/s", 0)
        yield result(f"{name}: the reference server takes", REFERENCE_SECONDS / listing.answer.seconds, "x as long")
        yield self._bytes(name, listing)
        yield result(f"{name}: peak memory", ran.peak_mb, "MB", 0)

    def _full_statistics(self) -> Iterator[Result]:
        """List the largest table with full statistics, which takes more than 200 MB: fast, and as on a slow link."""
        (fast,) = self._run(LARGEST, "log", listings=1, limited=False).listings
        yield result(f"{LARGEST}, log, full statistics: lines", fast.lines / fast.answer.seconds, "lines/s", 0)
        yield self._bytes(f"{LARGEST}, log, fast compression", fast)
        (strong,) = self._run(LARGEST, "log", listings=1, limited=False, strong=True).listings
        yield self._bytes(f"{LARGEST}, log, strongly compressed", strong)

    def _bytes(self, name: str, listing: Listing) -> Result:
        statistics = "reduced" if listing.reduced else "full"
        return result(f"{name}: {statistics} statistics", listing.bytes_a_line, "bytes a line")

    def _server(self) -> Iterator[Result]:
        environment = self._lab.environment | owner_environment(self._lab.aws) | {CACHE_VARIABLE: str(CACHE_MB)}
        with running_server(environment) as server:
            memory = server_memory(server, LARGEST, TABLES[LARGEST])
        name = f"{LARGEST}: memory of sluice serve"
        yield result(f"{name}, its limit for tables", CACHE_MB, "MB", 0)
        yield result(f"{name} after selective and full queries", memory["resident_mb"], "MB", 0)
        yield result(f"{name} at its peak", memory["peak_mb"], "MB", 0)


def _divide(cores: Sequence[int]) -> int | None:
    """Keep this process, and what it starts, off the last core. Return that core, for the function."""
    if len(cores) == 1:
        return None
    os.sched_setaffinity(0, cores[:-1])
    return cores[-1]


def main() -> None:
    function_core = _divide(sorted(os.sched_getaffinity(0)))
    results = []
    with running_lab() as lab:
        for measured in Bench(lab, function_core).results():
            print(f"{measured.name}: {measured.value:,.10g} {measured.unit}", file=sys.stderr, flush=True)
            results.append(measured)
    write("listing", results)


if __name__ == "__main__":
    main()
