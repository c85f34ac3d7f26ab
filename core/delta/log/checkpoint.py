"""A checkpoint: the state of a table at one version, as rows of Parquet.

A checkpoint stays encoded, in memory or in a temporary file, and is decoded in batches each time its files are read, so
a million files are never in memory at once. Only what totals need is kept per file: the hash of its key, its size, and
whether it has a deletion vector. A small checkpoint is kept decoded as well, because most tables are small and are read
again.
"""

import contextlib
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from arro3.core import RecordBatch
from arro3.io import read_parquet

from core.delta.log import actions
from core.delta.log.actions import memory_of
from core.delta.log.batch import AddBatch, FileBatch
from core.delta.log.damage import valid_actions, what_is_wrong
from core.delta.log.footer import MAGIC, narrowed_footer
from core.delta.log.rows import BYTES_PER_PARTITION, FileRows, PartitionCache
from core.delta.log.table_actions import TABLE_ACTIONS, TableActions
from core.delta.model import FileKey, Metadata, Protocol, Totals, file_keys
from core.errors import DamagedLogError, SharingError

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

BATCH_ROWS = 8192
# Encoded size up to which a checkpoint is kept decoded: about 20,000 files.
DECODED_BYTES = 4 * 1024 * 1024
MAX_DECODED_BYTES = 64 * 1024 * 1024
# Kept per file: a hash, its tag, the size, and whether there is a deletion vector.
BYTES_PER_FILE = 18
# A tag is one byte of a hash. For a few keys, comparing tags first skips a million files in one pass.
TAGS = range(256)
FEW_KEYS = 64

OPEN_FILES = Path("/proc/self/fd")
FIELDS_FOR_TOTALS = ("path", "size", "deletionVector")

ParquetFile: TypeAlias = bytes | IO[bytes]
"""A Parquet file of a checkpoint: its content, or a temporary file that is removed with this object."""


class Checkpoint:
    def __init__(
        self,
        files: Sequence[ParquetFile],
        manifest: bytes = b"",
        *,
        file_names: Sequence[str] = (),
        manifest_name: str = "",
    ) -> None:
        """`manifest` is the top-level file of a V2 checkpoint in JSON. It has the format of a commit.

        The names are relative to the table. An error contains them.
        """
        self._files = [*zip(files, file_names or [""] * len(files), strict=True)]
        self._hashes, self._sizes, self._has_vector = array("q"), array("q"), array("b")
        self.table_actions = TableActions()
        self._inline: list[AddBatch] = []
        self._decoded: list[FileRows] = []
        self._decoded_bytes = 0
        self._partitions: PartitionCache = {}
        encoded_bytes = sum(len(file) for file in files if isinstance(file, bytes))
        self.disk_bytes = sum(file.seek(0, 2) for file in files if not isinstance(file, bytes))
        self._is_decoded = encoded_bytes + self.disk_bytes <= DECODED_BYTES
        self._take_manifest(manifest, manifest_name)
        for file, name in self._files:
            with undamaged(name):
                _check_magic(file)
                with contextlib.nullcontext(file) if self._is_decoded else _narrowed(file) as content:
                    for batch in _batches(content):
                        self._take(batch, name)
        self._tags = _tags(self._hashes)
        self.totals = Totals(len(self._sizes), sum(self._sizes), sum(self._has_vector))
        inline_bytes = sum(memory_of(add) for batch in self._inline for add in batch.adds())
        kept_bytes = encoded_bytes + inline_bytes + self._decoded_bytes
        self._fixed_bytes = kept_bytes + BYTES_PER_FILE * len(self._sizes)

    @property
    def memory_bytes(self) -> int:
        """Grows while partition values are read for the first time."""
        return self._fixed_bytes + BYTES_PER_PARTITION * len(self._partitions)

    @property
    def protocol(self) -> Protocol | None:
        return self.table_actions.protocol

    @property
    def metadata(self) -> Metadata | None:
        return self.table_actions.metadata

    def batches(self, predicate: "Predicate | None" = None) -> Iterator[FileBatch]:  # noqa: ARG002
        yield from self._inline
        yield from self._decoded
        if not self._is_decoded:
            partitions: PartitionCache = {}
            for file, name in self._files:
                with undamaged(name):
                    for batch in _batches(file):
                        rows = FileRows.of(batch, partitions)
                        rows.check()
                        yield rows

    def totals_of(self, keys: Collection[FileKey]) -> Totals:
        """The totals of the files whose key is in `keys`.

        Compares hashes only: with a million files, one key in 10^13 matches a wrong file.
        """
        wanted = set(map(hash, keys))
        rows = [row for row in self._candidates(wanted) if self._hashes[row] in wanted]
        return Totals(len(rows), sum(self._sizes[row] for row in rows), sum(self._has_vector[row] for row in rows))

    def _candidates(self, wanted: Collection[int]) -> Iterable[int]:
        if len(wanted) > FEW_KEYS:
            return range(len(self._hashes))
        tags = set(_tags(array("q", wanted)))
        is_candidate = self._tags.translate(bytes(tag in tags for tag in TAGS))
        return (found.start() for found in re.finditer(b"\1", is_candidate))

    def _take_manifest(self, manifest: bytes, name: str) -> None:
        adds = []
        with valid_actions(name) as at:
            for action in actions.json_actions(manifest, at):
                if (add := action.get("add")) is not None:
                    adds.append(actions.add(add))
                else:
                    self.table_actions.take(action, name, at.line)
        if adds:
            inline = AddBatch.of(adds)
            self._inline.append(inline)
            self._count(inline)

    def _take(self, batch: RecordBatch, name: str) -> None:
        self.table_actions.take_rows(batch, name)
        rows = FileRows.of(batch, self._partitions)
        if self._is_decoded:
            rows.check()
            self._keep(rows)
        self._count(rows)

    def _keep(self, rows: FileRows) -> None:
        self._decoded.append(rows)
        self._decoded_bytes += rows.memory_bytes
        if self._decoded_bytes > MAX_DECODED_BYTES:  # the file was compressed very well
            self._is_decoded = False
            self._decoded.clear()
            self._decoded_bytes = 0

    def _count(self, files: FileBatch) -> None:
        self._hashes.extend(map(hash, file_keys(files.paths, files.deletion_vectors)))
        self._sizes.extend(files.sizes)
        self._has_vector.extend(map(bool, files.deletion_vectors))


def _tags(hashes: "array[int]") -> bytes:
    return hashes.tobytes()[:: hashes.itemsize]


def _batches(file: ParquetFile) -> Iterator[RecordBatch]:
    if isinstance(file, bytes):
        return read_parquet(file, batch_size=BATCH_ROWS)
    # By file descriptor if possible, because the file may have been unlinked.
    path = str(OPEN_FILES / str(file.fileno())) if OPEN_FILES.exists() else file.name
    return read_parquet(path, batch_size=BATCH_ROWS)


def _check_magic(file: ParquetFile) -> None:
    """Raises if the file does not begin as Parquet. arro3 does not check, and may end the process."""
    if isinstance(file, bytes):
        beginning = file[: len(MAGIC)]
    else:
        file.seek(0)
        beginning = file.read(len(MAGIC))
    if beginning != MAGIC:
        raise ValueError("a checkpoint is not a Parquet file")


@contextlib.contextmanager
def _narrowed(file: ParquetFile) -> Iterator[ParquetFile]:
    """The file with only the columns that totals need. Statistics, nine tenths of a file, are not decoded."""
    try:
        footer = narrowed_footer(file, _is_for_totals)
    except ValueError:  # decodes all columns, which takes longer
        footer = b""
    if isinstance(file, bytes):
        yield file + footer
        return
    end = file.seek(0, 2)
    try:
        with contextlib.suppress(OSError):  # the disk is full
            file.write(footer)
            file.flush()
        yield file
    finally:
        file.truncate(end)


def _is_for_totals(path: tuple[str, ...]) -> bool:
    return path[0] in TABLE_ACTIONS or (path[0] == "add" and path[1] in FIELDS_FOR_TOTALS)


@contextlib.contextmanager
def undamaged(file: str, *unrelated: type[Exception]) -> Iterator[None]:
    """Turns any failure to decode a file of a checkpoint into a `DamagedLogError`, except `unrelated` exceptions."""
    try:
        yield
    except (SharingError, MemoryError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except unrelated:
        raise
    except BaseException as problem:  # arro3 panics on a damaged file, and a panic is not an Exception
        what = f"the checkpoint cannot be decoded: {what_is_wrong(problem)}"
        raise DamagedLogError(what, file=file or None) from problem
