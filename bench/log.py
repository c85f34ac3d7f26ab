"""Measures reading and listing a table's log, compared with `deltalake` in the same run.

The tables are in the embedded AWS and have 10k, 100k and 1M files: a checkpoint and ten commits after it. Each case
runs in a fresh process, and cases alternate. Figures are medians over the rounds; ratios are medians of the ratios per
round. `open` ends when version, metadata and totals are known. `make bench-log` takes about eight minutes.
"""

import json
import statistics
from collections.abc import Iterator

from bench.lab.aws import Lab, running_lab
from bench.lab.fresh import Figures, fresh
from bench.lab.proxy import counting_proxy
from bench.log_cases import WARM_UP
from bench.report import Result, write
from bench.tables import COMMITS, DAYS, Shape, commit_name, commit_of

TABLES = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000}
ROUNDS = {"10k": 5, "100k": 3, "1M": 3}
CHECKPOINT_SHAPES = {
    "100k-in-parts": Shape(parts=4),
    "100k-V2": Shape(sidecars=4),
    "100k-with-parsed-stats": Shape(parsed_stats=True),
}
AT_LEAST = {"1M: full listing, deltalake takes": 4, "1M: query with limitHint, a cold one takes": 20}
AT_MOST = {
    "1M: full listing, peak memory": 300,
    "1M: full query with signed URLs, peak memory": 300,
    **{f"{table}: S3 requests to open": 14 for table in TABLES},
}

CASES = (
    "download",
    "sluice_open",
    "sluice_list",
    "sluice_query",
    "deltalake_open",
    "deltalake_list",
    "deltalake_list_by_json",
    "deltalake_list_by_columns",
)
LISTINGS = {
    "deltalake_list": "deltalake",
    "deltalake_list_by_json": "deltalake by JSON",
    "deltalake_list_by_columns": "deltalake by columns",
}
ON_ONE_DAY = {
    "op": "equal",
    "children": [
        {"op": "column", "name": "pickup_date", "valueType": "date"},
        {"op": "literal", "value": DAYS[123], "valueType": "date"},
    ],
}
QUERIES = {
    "query with limitHint": json.dumps({"limitHint": 10}),
    "query of one partition": json.dumps({"jsonPredicateHints": json.dumps(ON_ONE_DAY)}),
}


def run(lab: Lab, case: str, *arguments: str, **variables: str) -> Figures:
    return fresh(f"bench.log_cases:{case}", *arguments, environment=lab.environment | variables)


def result(name: str, value: float, unit: str) -> Result:
    return Result.of(name, value, unit, AT_LEAST, AT_MOST)


def listings(lab: Lab, table: str) -> Iterator[Result]:
    rounds = [{case: run(lab, case, table) for case in CASES} for _ in range(ROUNDS[table])]

    def median(name: str, case: str, figure: str = "seconds") -> Result:
        digits, unit = (0, "MB") if figure == "peak_mb" else (3, "s")
        return result(f"{table}: {name}", round(statistics.median(one[case][figure] for one in rounds), digits), unit)

    yield median("the emulator hands out the log", "download")
    yield median("open", "sluice_open")
    yield median("open, deltalake", "deltalake_open")
    yield median("first byte", "sluice_list", "first_byte")
    yield median("first byte, deltalake", "deltalake_list", "first_byte")
    yield median("full listing", "sluice_list")
    yield median("full listing, deltalake", "deltalake_list")
    yield median("full listing, deltalake by JSON", "deltalake_list_by_json")
    yield median("full listing, deltalake by columns", "deltalake_list_by_columns")
    yield median("full query with signed URLs", "sluice_query")
    yield median("open, peak memory", "sluice_open", "peak_mb")
    yield median("open, peak memory, deltalake", "deltalake_open", "peak_mb")
    yield median("full listing, peak memory", "sluice_list", "peak_mb")
    yield median("full listing, peak memory, deltalake", "deltalake_list", "peak_mb")
    yield median("full query with signed URLs, peak memory", "sluice_query", "peak_mb")
    for case, name in LISTINGS.items():
        ratio = statistics.median(one[case]["seconds"] / one["sluice_list"]["seconds"] for one in rounds)
        yield result(f"{table}: full listing, {name} takes", round(ratio, 1), "x as long")


def other_checkpoints(lab: Lab) -> Iterator[Result]:
    for table, shape in CHECKPOINT_SHAPES.items():
        lab.share_table(table, TABLES["100k"], shape)
        for name, case in (("full listing", "sluice_list"), ("full listing, deltalake", "deltalake_list")):
            seconds = statistics.median(run(lab, case, table)["seconds"] for _ in range(ROUNDS["100k"]))
            yield result(f"{table}: {name}", round(seconds, 3), "s")


def requests(lab: Lab, table: str) -> Iterator[Result]:
    """Count the S3 requests that open a table.

    A proxy counts the requests of deltalake. It also sees those of the warm-up table, which are subtracted.
    """
    with counting_proxy(lab.aws.port) as proxy:
        run(lab, "deltalake_open", WARM_UP, AWS_ENDPOINT_URL=proxy.url)
        warm_up_requests = proxy.requests["s3"] // 2
        proxy.requests.clear()
        run(lab, "deltalake_open", table, AWS_ENDPOINT_URL=proxy.url)
        deltalake_requests = proxy.requests["s3"] - warm_up_requests
    yield result(f"{table}: S3 requests to open", run(lab, "sluice_open", table)["requests"], "requests")
    yield result(f"{table}: S3 requests to open, deltalake", deltalake_requests, "requests")


def warm_queries(lab: Lab, table: str) -> Iterator[Result]:
    """Time a query from call to last byte: first with an empty cache, then again after one new commit."""
    commit = COMMITS
    for query, body in QUERIES.items():
        rounds = []
        for _ in range(ROUNDS[table]):
            commit += 1
            upload_url = lab.upload_url(table, commit_name(commit))
            rounds.append(run(lab, "sluice_warm", table, body, upload_url, commit_of(TABLES[table], commit).decode()))
        for figure in ("cold", "warm"):
            yield result(f"{table}: {query}, {figure}", round(statistics.median(one[figure] for one in rounds), 3), "s")
        ratio = statistics.median(one["cold"] / one["warm"] for one in rounds)
        yield result(f"{table}: {query}, a cold one takes", round(ratio, 1), "x as long")


def main() -> None:
    results: list[Result] = []
    with running_lab() as lab:
        lab.share_table(WARM_UP, 20)
        for table, files in TABLES.items():
            lab.share_table(table, files)
            results += [*listings(lab, table), *requests(lab, table), *warm_queries(lab, table)]
        results += other_checkpoints(lab)
    write("log", results)


if __name__ == "__main__":
    main()
