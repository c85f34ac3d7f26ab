"""The cases of `make bench-index`: index builds, and queries with and without an index. Each runs in its own process.

A query is timed from the call to the last byte of its answer, in a warm process. Each query asks for a different day,
range or trip. The time that requests wait for the emulator is reported separately.
"""

import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import botocore.session

from bench.lab.aws import SCHEMA, SHARE
from bench.lab.fresh import Clock, Figures, peak_mb
from bench.lab.query import query_function
from core.settings import Settings

FILES_VARIABLE = "BENCH_FILES"
FILES_PER_DAY = 250
ROWS_PER_FILE = 250_000
SERVICES = ("s3", "dynamodb")
WARM_UP = "warm-up"
EMULATOR = "ministack"


def build(table: str, full: str) -> Figures:
    """Index a table with the job, in this process and in those that Spark starts. `full`: "full" or "later".

    A full build starts after Spark has started its Python workers and indexed a table of 100,000 files. A job pays for
    this start-up once, however many tables it indexes.
    """
    from core.catalog.admin import CatalogAdmin
    from core.index.read.store import IndexStore
    from core.index.write.version_build import IndexTable
    from core.index.write.writer import IndexWriter
    from pipeline.connection import dynamodb
    from pipeline.indexing import Indexer
    from pipeline.job import tables_to_index
    from pipeline.spark.session import local_session

    settings, client = Settings.from_environment(), dynamodb()
    index_table = settings.index_table or ""
    catalog = CatalogAdmin(client, settings.catalog_table)
    shared, warm_up = (
        tables_to_index(catalog, {f"{SHARE}.{SCHEMA}.{name}"}, all_tables=False)[0] for name in (table, WARM_UP)
    )
    indexes = IndexTable(IndexStore(client, index_table), IndexWriter(client, index_table))
    clock, session = Clock(), None
    if full == "full":
        session = local_session()
    indexer = Indexer(indexes, spark=lambda: session or local_session())
    if session is not None:
        session.range(10).count()
    spark_start = clock.seconds()
    if session is not None:
        indexer.index(warm_up, full=True)
    started, emulator = clock.seconds(), _emulator_seconds()
    with _peaks() as peaks:
        outcome = indexer.index(shared, full=full == "full")
    seconds = clock.seconds() - started
    head = outcome.head
    return {
        "spark_start": spark_start,
        "first_table": started - spark_start,
        "seconds": seconds,
        "emulator": _emulator_seconds() - emulator,
        "files": head.files,
        "items": head.chunks,
        "content_mb": head.content_bytes / 1e6,
        "units": outcome.units,
        **peaks,
    }


def _emulator_seconds() -> float:
    """Return the CPU seconds of the emulator so far. It is a child process of the benchmark, as this process is."""
    return sum(cpu for parent, name, _, cpu in _processes().values() if parent == os.getppid() and name == EMULATOR)


@contextmanager
def _peaks() -> Iterator[dict[str, float]]:
    """Track the peak memory of this process, of Spark's JVM, and of its largest Python worker."""
    peaks = {"driver_mb": 0.0, "jvm_mb": 0.0, "worker_mb": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            for name, size in _descendants(os.getpid()):
                figure = "jvm_mb" if name == "java" else "worker_mb"
                peaks[figure] = max(peaks[figure], size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()
        peaks["driver_mb"] = peak_mb()


def _descendants(root: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the resident megabytes of each descendant process."""
    found = _processes()
    for pid, (_, name, size, _) in found.items():
        ancestor = pid
        while ancestor in found and ancestor != root:
            ancestor = found[ancestor][0]
        if ancestor == root and pid != root:
            yield name, size


def _processes() -> dict[int, tuple[int, str, float, float]]:
    """Map each process id of this machine to parent id, name, resident megabytes and CPU seconds."""
    found: dict[int, tuple[int, str, float, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, command = stat.read_text(), stat.with_name("cmdline").read_bytes()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        seconds = (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")
        size = int(rest[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        found[int(stat.parent.name)] = int(rest[1]), EMULATOR if EMULATOR.encode() in command else name, size, seconds
    return found


def queries(table: str, kind: str, number: str) -> Figures:
    """Time warm queries of one kind. A first query warms up the process and does not count."""
    waits = _Waits()
    query = query_function(waits.session)
    bodies = KINDS[kind](int(os.environ[FILES_VARIABLE]))
    _drain(query(table, next(bodies)).body)
    waits.reset()
    taken, lines = [], 0
    for _ in range(int(number)):
        clock = Clock()
        lines += _drain(query(table, next(bodies)).body)
        taken.append(clock.seconds())
    taken.sort()
    return {
        "p50": statistics.median(taken),
        "p95": taken[int(len(taken) * 0.95)] if len(taken) > 1 else taken[0],
        "waiting": waits.seconds / len(taken),
        "lines": lines / len(taken),
        **{f"{service}_requests": waits.requests[service] / len(taken) for service in SERVICES},
    }


def cold(table: str, kind: str) -> Figures:
    """Time the first query of a process, and count its requests."""
    waits = _Waits()
    query = query_function(waits.session)
    clock = Clock()
    _drain(query(table, next(KINDS[kind](int(os.environ[FILES_VARIABLE])))).body)
    return clock.figures() | {f"{service}_requests": float(waits.requests[service]) for service in SERVICES}


def listing(table: str, gzipped: str) -> Figures:
    """Query all files, with signed URLs, in a process that has the table in its cache."""
    query = query_function(botocore.session.Session())
    _drain(query(table, {"limitHint": 1}).body)
    clock, emulator = Clock(), _emulator_seconds()
    lines = _drain(query(table, {}).body, gzipped=gzipped == "gzipped")
    return clock.figures() | {"lines": lines, "emulator": _emulator_seconds() - emulator}


def deltalake(table: str, day: str) -> Figures:
    """Open the table with `deltalake` and find the files of one day."""
    from deltalake import DeltaTable

    from bench.log_cases import Tables, storage_options
    from cli.embedded.setup import DATA_BUCKET

    options, clock = storage_options(Tables().open(table)), Clock()
    opened = DeltaTable(f"s3://{DATA_BUCKET}/{table}", storage_options=options)
    open_seconds = clock.seconds()
    found = opened.file_uris(partition_filters=[("pickup_date", "=", day)])
    return clock.figures() | {"open": open_seconds, "lines": len(found)}


def _days(files: int) -> Iterator[dict[str, object]]:
    from bench.tables import day_of

    days = files // FILES_PER_DAY
    for number in count(3):
        yield _hint("equal", "pickup_date", "date", day_of(number * 7919 % days))


def _points(files: int) -> Iterator[dict[str, object]]:
    for number in count(3):
        yield _hint("equal", "trip_id", "long", str(number * 7919 % files * ROWS_PER_FILE + 17))


def _ranges(files: int) -> Iterator[dict[str, object]]:
    """Ranges of trips that span a hundred files."""
    for number in count(3):
        first = number * 7919 % (files - 100) * ROWS_PER_FILE
        between = [("greaterThanOrEqual", first), ("lessThan", first + 100 * ROWS_PER_FILE)]
        parts = [_comparison(operator, "trip_id", "long", str(value)) for operator, value in between]
        yield {"jsonPredicateHints": json.dumps({"op": "and", "children": parts})}


KINDS: dict[str, Callable[[int], Iterator[dict[str, object]]]] = {"day": _days, "point": _points, "range": _ranges}


def _hint(operator: str, column: str, value_type: str, value: str) -> dict[str, object]:
    return {"jsonPredicateHints": json.dumps(_comparison(operator, column, value_type, value))}


def _comparison(operator: str, column: str, value_type: str, value: str) -> dict[str, object]:
    return {
        "op": operator,
        "children": [
            {"op": "column", "name": column, "valueType": value_type},
            {"op": "literal", "value": value, "valueType": value_type},
        ],
    }


class _Waits:
    """Counts requests to AWS and adds up their durations, including those of concurrent requests."""

    def __init__(self) -> None:
        self.session = botocore.session.Session()
        self.reset()
        for service in SERVICES:
            self.session.register(f"before-send.{service}", self._send)
            self.session.register(f"response-received.{service}", self._received)
        self._sent = threading.local()

    def reset(self) -> None:
        self.seconds = 0.0
        self.requests = dict.fromkeys(SERVICES, 0)

    def _send(self, event_name: str, **_: Any) -> None:
        self.requests[event_name.split(".")[1]] += 1
        self._sent.at = time.perf_counter()

    def _received(self, **_: object) -> None:
        self.seconds += time.perf_counter() - self._sent.at


def _drain(body: Iterable[bytes], *, gzipped: bool = False) -> int:
    """Read the whole body and return the number of lines."""
    from core.runtime.events import gzip_compressor

    compressor = gzip_compressor()
    lines = 0
    for part in body:
        lines += part.count(b"\n")
        if gzipped:
            compressor.compress(part)
    return lines
