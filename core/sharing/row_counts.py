"""Row counts from Parquet footers, for files whose statistics lack `numRecords`.

Without row counts, a `limitHint` could not end an answer, and the answer of a large table would be too large. Only the
first files that need it are read, with a bounded number of requests and a bounded time. A count that cannot be read
stays unknown: the answer then lists more files, never too few.
"""

import time
from collections.abc import Callable, Sequence

from botocore.exceptions import BotoCoreError, ClientError

from core.catalog.model import Table
from core.delta.paths import FilePaths
from core.errors import TableFilesError
from core.storage.location import S3Location
from core.storage.objects import ObjectReader
from core.storage.session import StorageSession

MAX_FOOTERS = 65
# The first file alone usually has enough rows.
FIRST_READS = 1
PARALLEL_READS = 16
MAX_SECONDS = 3.0
# The footers of most files are smaller. The number of rows is near the start of a footer, after the schema.
PART_BYTES = 64 * 1024
TRAILER_BYTES = 8
MAGIC = b"PAR1"


class FooterRowCounts:
    """Counts rows for one request."""

    def __init__(self, table: Table, storage: StorageSession, *, now: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self._paths = FilePaths(storage.location, [S3Location.parse(uri) for uri in table.auxiliary_locations])
        self._now = now
        self._reads = 0
        self._deadline: float | None = None

    @property
    def max_reads(self) -> int:
        """The number of files that `read` accepts now; 0 if this request must not read more."""
        if self._deadline is not None and self._now() >= self._deadline:
            return 0
        return min(PARALLEL_READS if self._reads else FIRST_READS, MAX_FOOTERS - self._reads)

    def read(self, paths: Sequence[str], sizes: Sequence[int]) -> list[int | None]:
        """Returns the number of rows of each file, including deleted ones; None if it cannot be read in time."""
        from concurrent.futures import ThreadPoolExecutor, wait  # on demand, because files usually have row counts

        if self._deadline is None:
            self._deadline = self._now() + MAX_SECONDS
        self._reads += len(paths)
        found = self._paths.find_all(paths)
        pool = ThreadPoolExecutor(len(paths))
        try:
            counts = [
                pool.submit(read_row_count, self._storage.objects(bucket), key, size)
                for (bucket, key), size in zip(found, sizes, strict=True)
            ]
            wait(counts, timeout=max(self._deadline - self._now(), 0))
            return [count.result() if count.done() else None for count in counts]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def read_row_count(objects: ObjectReader, key: str, size: int) -> int | None:
    """Returns None if the file cannot be read or is not a plain Parquet file of this size."""
    from core.delta.log.footer import num_rows

    try:
        rows = num_rows(_start_of_footer(objects, key, size))
    except (TableFilesError, ClientError, BotoCoreError, ValueError):
        return None
    return rows if rows >= 0 else None


def _start_of_footer(objects: ObjectReader, key: str, size: int) -> bytes:
    if size < TRAILER_BYTES:
        raise ValueError("the file is too small")
    length = min(size, PART_BYTES)
    tail = objects.get_range(key, size - length, length)
    footer_bytes = int.from_bytes(tail[-TRAILER_BYTES:-4], "little")
    if len(tail) != length or tail[-4:] != MAGIC or footer_bytes > size - TRAILER_BYTES:
        raise ValueError("the Parquet footer is missing, encrypted or truncated")
    if footer_bytes <= length - TRAILER_BYTES:
        return tail[length - TRAILER_BYTES - footer_bytes : length - TRAILER_BYTES]
    return objects.get_range(key, size - TRAILER_BYTES - footer_bytes, min(footer_bytes, PART_BYTES))
