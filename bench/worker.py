"""Measures builds of the worker of asynchronous queries: `make bench-worker`.

Each build runs in its own process, reads a log from the local disk, and writes to a DynamoDB that accepts everything at
once. It shows the processor time and the memory that a log of a given size needs.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

SIZES = (100_000, 300_000, 1_000_000)


class Sink:
    """A DynamoDB client that stores nothing."""

    written = 0

    def get_item(self, **_: object) -> dict[str, Any]:
        return {}

    def query(self, **_: object) -> dict[str, Any]:
        return {"Items": []}

    def put_item(self, **_: object) -> dict[str, Any]:
        return {}

    def update_item(self, **_: object) -> dict[str, Any]:
        return {}

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        for requests in RequestItems.values():
            items = (request["PutRequest"]["Item"] for request in requests)
            self.written += sum(len(item["content"]["B"]) for item in items if "content" in item)
        return {}


def build(folder: Path) -> None:
    from core.delta.log.listing import latest_log
    from core.index.read.store import IndexStore
    from core.index.write.version_build import IndexTable, index_of_version
    from core.index.write.writer import IndexWriter
    from core.storage.location import S3Location
    from core.storage.objects import TableObjects
    from pipeline.storage import LocalReader

    class Reader(LocalReader):
        def save(self, key: str, file: IO[bytes], etag: str = "") -> None:
            file.write(self.get(key, etag))

    opened = TableObjects(Reader(), S3Location("", str(folder).strip("/")))
    log = latest_log(*opened)
    segment = log.segment(log.version)
    log_bytes = sum(file.size for file in (*segment.checkpoint, *segment.commits))
    sink: Any = Sink()
    indexes = IndexTable(IndexStore(sink, "index"), IndexWriter(sink, "index"))
    started = time.process_time()
    index_of_version(indexes, opened, log.version, log.tip(log.version), max_log_bytes=1e12)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"log {log_bytes / 2**20:.0f} MB, {seconds:.1f} s, peak {peak:.0f} MB, index {sink.written / 2**20:.0f} MB")


def main() -> None:
    from bench.tables import write_table

    with tempfile.TemporaryDirectory(prefix="bench-worker-") as scratch:
        for files in SIZES:
            folder = Path(scratch, str(files))
            write_table(folder, files)
            print(f"{files:,} files:", end=" ", flush=True)
            subprocess.run([sys.executable, "-m", "bench.worker", str(folder)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build(Path(sys.argv[1]))
    else:
        main()
