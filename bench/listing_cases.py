"""The cases of `make bench-listing`: full listings by a streaming function, index builds, and a server's memory."""

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.index_cases import KINDS
from bench.lab.aws import SCHEMA, SHARE, TOKEN_VARIABLE
from bench.lab.fresh import Figures
from bench.lab.runtime_api import Answer, Link, RuntimeApi
from bench.lab.server import Server
from bench.lab.streaming import Options

HANDLER = "handlers.query_table.lambda_handler"
ROOT = Path(__file__).parent.parent
GZIP = 31
PIECE = 65_536
# Rounds of queries that a server answers before its memory is read, and its time to return freed memory.
ROUNDS = 3
SELECTIVE_QUERIES = 10
SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Listing:
    """A full listing of a table."""

    answer: Answer
    lines: int
    reduced: bool
    """Whether the function reduced the statistics so that the answer fits."""

    @property
    def bytes_a_line(self) -> float:
        return len(self.answer.body) / self.lines


@dataclass(frozen=True, slots=True)
class Run:
    """What a fresh function process did: its start, a cold listing, and warm ones."""

    init: float
    """Seconds from the start of the process to its request for the first invocation."""
    listings: list[Listing]
    peak_mb: float
    layers: Figures
    """CPU seconds of the last listing by layer, if measured."""


def run(
    environment: Mapping[str, str], table: str, options: Options, *, link: Link | None = None, listings: int = 2
) -> Run:
    with tempfile.TemporaryDirectory() as scratch, RuntimeApi(link) as api:
        variables = {
            **environment,
            **options.environment(),
            "AWS_LAMBDA_RUNTIME_API": api.address,
            "AWS_LAMBDA_FUNCTION_NAME": "bench",
            "LAMBDA_TASK_ROOT": str(ROOT),
            "_HANDLER": HANDLER,
        }
        started = time.perf_counter()
        with _process("bench.lab.streaming", variables, Path(scratch) / "log") as process:
            api.wait_until_ready()
            init = time.perf_counter() - started
            event = _event(environment[TOKEN_VARIABLE], table)
            answers = [_listing(api.invoke(event)) for _ in range(listings)]
            peak = memory_mb(process.pid, "VmHWM")
        layers = json.loads(Path(options.layers_path).read_text()) if options.layers_path else {}
    return Run(init, answers, peak, layers)


@contextlib.contextmanager
def _process(module: str, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as output,
        subprocess.Popen([sys.executable, "-m", module], env=dict(environment), cwd=ROOT, stdout=output) as process,
    ):
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text()[-2000:])
            raise
        finally:
            process.send_signal(signal.SIGTERM)


def _event(token: str, table: str) -> dict[str, object]:
    return {
        "httpMethod": "POST",
        "pathParameters": {"share": SHARE, "schema": SCHEMA, "table": table},
        "queryStringParameters": None,
        "headers": {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"},
        "body": base64.b64encode(b"{}").decode(),
        "isBase64Encoded": True,
        "requestContext": {"requestId": "bench"},
    }


def _listing(answer: Answer) -> Listing:
    if answer.prelude["statusCode"] != http.client.OK:
        raise ValueError(f"the function answered {answer.prelude['statusCode']}")
    decompressor = zlib.decompressobj(GZIP)
    lines, last = 0, b""
    for begin in range(0, len(answer.body), PIECE):
        piece = decompressor.decompress(answer.body[begin : begin + PIECE])
        lines += piece.count(b"\n")
        last = (last + piece)[-PIECE:]
    if not decompressor.eof:
        raise ValueError("the answer is incomplete")
    return Listing(answer, lines - len(("protocol", "metaData")), reduced=b"minValues" not in last.splitlines()[-1])


def memory_mb(pid: int, name: str) -> float:
    """Return a figure of /proc/PID/status, such as VmRSS (resident now) or VmHWM (at its peak)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/{pid}/status has no {name}: memory can be measured on Linux only")


def build(table: str) -> Figures:
    """Index a table in this process, however large it is. It has the memory of this machine, not of a function."""
    from core.catalog.admin import CatalogAdmin
    from core.index.read.store import IndexStore
    from core.index.write.writer import IndexWriter
    from core.settings import Settings
    from pipeline import local_build
    from pipeline.connection import dynamodb
    from pipeline.indexing import Indexer
    from pipeline.job import tables_to_index
    from pipeline.spark.session import local_session

    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the function is not running yet
    local_build.SMALL_LOG_BYTES = sys.maxsize
    settings, client = Settings.from_environment(), dynamodb()
    index_table = settings.index_table or ""
    catalog = CatalogAdmin(client, settings.catalog_table)
    (shared,) = tables_to_index(catalog, {f"{SHARE}.{SCHEMA}.{table}"}, all_tables=False)
    indexes = local_build.IndexTable(IndexStore(client, index_table), IndexWriter(client, index_table))
    outcome = Indexer(indexes, spark=local_session, footers=False).index(shared, full=True)
    return {"files": outcome.head.files, "seconds": outcome.seconds}


def server_memory(server: Server, table: str, files: int) -> Figures:
    """Ask a server for selective and full listings and for pages, in rounds. Return its memory after that."""
    kinds = {kind: bodies(files) for kind, bodies in KINDS.items()}
    for _ in range(ROUNDS):
        for bodies in kinds.values():
            for _ in range(SELECTIVE_QUERIES):
                _ask(server, table, next(bodies))
        _ask(server, table, {})
        _ask(server, table, {"maxFiles": 10_000})
    settled = time.monotonic() + SETTLE_SECONDS
    resident = [memory_mb(server.pid, "VmRSS")]
    while time.monotonic() < settled:
        time.sleep(1)
        resident.append(memory_mb(server.pid, "VmRSS"))
    return {"resident_mb": min(resident), "resident_at_once_mb": resident[0], "peak_mb": memory_mb(server.pid, "VmHWM")}


def _ask(server: Server, table: str, body: Mapping[str, object]) -> None:
    url = urlsplit(server.endpoint)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=600)
    with contextlib.closing(connection):
        headers = {"Authorization": f"Bearer {server.token}", "Accept-Encoding": "gzip"}
        path = f"{url.path}/shares/{SHARE}/schemas/{SCHEMA}/tables/{table}/query"
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        while answer.read(PIECE):
            pass
        if answer.status != http.client.OK:
            raise ValueError(f"the server answered {answer.status}")
