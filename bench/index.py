"""Measures index builds, and queries with an index, on tables of 10k, 100k and 1M files.

The tables are in the embedded AWS. Every day has the same number of files, so a larger table has more days. The job
runs in its own Spark session on two cores. Queries run warm, in fresh processes, each for a different day, range or
trip. The baselines are the log alone and `deltalake`. The embedded AWS uses the same two cores, unlike a real account,
so its share is reported separately.

`SLUICE_BENCH_TABLES=10M make bench-index` adds a table of ten million files, which is queried only through its index.
"""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise

from bench import orders, plots
from bench.index_cases import FILES_PER_DAY, FILES_VARIABLE, KINDS, WARM_UP
from bench.lab.aws import Lab, running_lab
from bench.lab.fresh import Figures, fresh
from bench.report import Result, write
from bench.tables import COMMITS, Shape, commit_name, commit_of, day_of

TABLES = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000}
ON_DEMAND = {"10M": 10_000_000}
SHAPE = Shape(files_per_day=FILES_PER_DAY)
QUERIES = 40
LOG_QUERIES = {"10k": 10, "100k": 5, "1M": 3}
INDEX_VARIABLE = "SLUICE_INDEX_TABLE"
SELECTIVE = tuple(KINDS)
# The table that warms up Spark before each full build. It is large enough to need Spark.
WARM_UP_FILES = 100_000
CORES = 2
AT_LEAST = {
    "1M: day query, the log takes": 100,
    "1M: point query, the log takes": 100,
    "1M: full listing, the log takes": 2,
    "1M: full listing, signed and gzipped": 40_000,
    "1M: job": 25_000,
    "1M: a later build, a full one takes": 20,
}
AT_MOST = {
    "1M: day query, as long as on 100k": 2,
    "1M: point query, as long as on 100k": 2,
    "1M: selective queries, peak memory": 200,
    "1M: full listing, peak memory": 200,
    **{f"1M: {kind} query, cold, requests to S3": 2 for kind in SELECTIVE},
    **{f"1M: {kind} query, cold, requests to DynamoDB": 4 for kind in SELECTIVE},
}


def result(name: str, value: float, unit: str, digits: int = 3) -> Result:
    return Result.of(name, round(value, digits), unit, AT_LEAST, AT_MOST)


class Bench:
    def __init__(self, lab: Lab, table: str, files: int) -> None:
        self._lab, self._table, self._files = lab, table, files
        self._has_baselines = table not in ON_DEMAND
        self.queries: dict[tuple[str, str], Figures] = {}

    def results(self) -> Iterator[Result]:
        self._lab.share_table(self._table, self._files, SHAPE)
        yield from self._full_build()
        yield from self._selective_queries()
        if self._has_baselines:
            yield from self._full_listing()
            yield from self._by_deltalake()
        yield from self._incremental_build()

    def _run(self, case: str, *arguments: str, index: bool = True, **variables: str) -> Figures:
        environment = self._lab.environment | {FILES_VARIABLE: str(self._files)} | variables
        if not index:
            del environment[INDEX_VARIABLE]
        return fresh(f"bench.index_cases:{case}", self._table, *arguments, environment=environment)

    def _result(self, name: str, value: float, unit: str, digits: int = 3) -> Result:
        return result(f"{self._table}: {name}", value, unit, digits)

    def _full_build(self) -> Iterator[Result]:
        built = self._run("build", "full", **self._lab.owner)
        self.full = built
        self.seconds = built["seconds"] - built["emulator"] / CORES
        yield self._result("job", built["files"] / self.seconds, "files/s", 0)
        yield self._result("job, with the emulator beside it", built["files"] / built["seconds"], "files/s", 0)
        yield self._result("job, seconds", built["seconds"], "s", 1)
        yield self._result("job, seconds of the emulator's CPU", built["emulator"], "s", 1)
        yield self._result("job, start-up: Spark", built["spark_start"], "s", 1)
        yield self._result("job, start-up: a first table of 100k files", built["first_table"], "s", 1)
        for figure, unit in (("driver_mb", "MB"), ("jvm_mb", "MB"), ("worker_mb", "MB"), ("items", "chunks")):
            yield self._result(f"job, {figure.removesuffix('_mb')}", built[figure], unit, 0)
        yield self._result("index", built["content_mb"], "MB", 1)
        yield self._result("index, of each file", built["content_mb"] * 1e6 / built["files"], "bytes", 0)

    def _selective_queries(self) -> Iterator[Result]:
        peak = 0.0
        for kind in SELECTIVE:
            by_index = self._run("queries", kind, str(QUERIES))
            self.queries[kind, "index"] = by_index
            peak = max(peak, by_index["peak_mb"])
            yield self._result(f"{kind} query, p50", by_index["p50"] * 1000, "ms", 1)
            yield self._result(f"{kind} query, p95", by_index["p95"] * 1000, "ms", 1)
            yield self._result(f"{kind} query, of it the emulator", by_index["waiting"] * 1000, "ms", 1)
            yield self._result(f"{kind} query, files", by_index["lines"], "lines", 0)
            if self._has_baselines:
                by_log = self._run("queries", kind, str(LOG_QUERIES[self._table]), index=False)
                self.queries[kind, "log"] = by_log
                yield self._result(f"{kind} query, the log, p50", by_log["p50"] * 1000, "ms", 1)
                yield self._result(f"{kind} query, the log takes", by_log["p50"] / by_index["p50"], "x as long", 1)
            cold = self._run("cold", kind)
            yield self._result(f"{kind} query, cold", cold["seconds"] * 1000, "ms", 1)
            yield self._result(f"{kind} query, cold, requests to S3", cold["s3_requests"], "requests", 0)
            # Two of these requests read the catalog.
            yield self._result(f"{kind} query, cold, requests to DynamoDB", cold["dynamodb_requests"], "requests", 0)
        yield self._result("selective queries, peak memory", peak, "MB", 0)

    def _full_listing(self) -> Iterator[Result]:
        by_index = self._run("listing", "plain")
        by_log = self._run("listing", "plain", index=False)
        gzipped = self._run("listing", "gzipped")
        self.queries["full listing", "index"] = {"p50": by_index["seconds"]}
        self.queries["full listing", "log"] = {"p50": by_log["seconds"]}
        yield self._result("full listing", by_index["seconds"], "s")
        yield self._result("full listing, seconds of the emulator's CPU", by_index["emulator"], "s")
        yield self._result("full listing, the log", by_log["seconds"], "s")
        yield self._result("full listing, the log takes", by_log["seconds"] / by_index["seconds"], "x as long", 1)
        yield self._result("full listing, CPU of its own", by_index["cpu_seconds"], "s")
        yield self._result("full listing, the log, CPU of its own", by_log["cpu_seconds"], "s")
        yield self._result("full listing, peak memory", by_index["peak_mb"], "MB", 0)
        yield self._result("full listing, signed and gzipped", gzipped["lines"] / gzipped["seconds"], "lines/s", 0)

    def _by_deltalake(self) -> Iterator[Result]:
        found = self._run("deltalake", day_of(3))
        self.queries["day", "deltalake"] = {"p50": found["seconds"]}
        yield self._result("day query, deltalake", found["seconds"] * 1000, "ms", 1)
        yield self._result("day query, deltalake, peak memory", found["peak_mb"], "MB", 0)

    def _incremental_build(self) -> Iterator[Result]:
        commit = COMMITS + 1
        content = commit_of(self._files, commit, SHAPE)
        self._lab.put(self._table, commit_name(commit), content)
        later = self._run("build", "later", **self._lab.owner)
        yield self._result("a later build", later["seconds"], "s")
        yield self._result("a later build, a full one takes", self.full["seconds"] / later["seconds"], "x as long", 1)
        yield self._result("a later build, a full one writes", self.full["units"] / later["units"], "x as much", 1)


def main() -> None:
    requested = os.environ.get("SLUICE_BENCH_TABLES", "")
    tables = TABLES | {name: files for name, files in ON_DEMAND.items() if name in requested.split(",")}
    results: list[Result] = []
    benches: dict[str, Bench] = {}
    with running_lab() as lab:
        lab.share_table(WARM_UP, WARM_UP_FILES, SHAPE)
        for table, files in tables.items():
            bench = benches[table] = Bench(lab, table, files)
            for measured in bench.results():
                print(f"{measured.name}: {measured.value:,.10g} {measured.unit}", file=sys.stderr, flush=True)
                results.append(measured)
    for kind in SELECTIVE:
        ratio = benches["1M"].queries[kind, "index"]["p50"] / benches["100k"].queries[kind, "index"]["p50"]
        results.append(result(f"1M: {kind} query, as long as on 100k", ratio, "x", 2))
    for (smaller, before), (larger, after) in pairwise(benches.items()):
        growth = (after.seconds / tables[larger]) / (before.seconds / tables[smaller])
        results.append(result(f"{larger}: job, as long for each file as on {smaller}", growth, "x", 2))
    results += orders.results()
    write("index", results)
    plots.main()


if __name__ == "__main__":
    main()
