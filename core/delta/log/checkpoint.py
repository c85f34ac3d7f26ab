"""A checkpoint: the state of a table at one version, as rows of Parquet.

It stays packed, in memory or in a file of the temporary directory, and is decoded a batch at a time whenever its files
are asked for: a million of them never stand in memory. What is kept of each is what totals need, the hash of its key
and its size. A small checkpoint is kept decoded as well, because most tables are small and are asked for again.
"""

import contextlib
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from arro3.core import RecordBatch
from arro3.io import read_parquet

from core.delta.log import actions
from core.delta.log.batch import AddBatch, FileBatch
from core.delta.log.footer import MAGIC, narrowed_footer
from core.delta.log.rows import FileRows, KnownPartitions
from core.delta.log.table_actions import TABLE_ACTIONS, TableActions
from core.delta.model import FileKey, Metadata, Protocol, Totals, file_keys
from core.errors import MalformedRequestError, SharingError

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

BATCH_ROWS = 8192
# Of a packed checkpoint: some 20,000 files.
DECODED_BYTES = 4 * 1024 * 1024
MAX_DECODED_BYTES = 64 * 1024 * 1024
# Of each file: a hash and its tag, a size, and whether there is a deletion vector.
INDEX_BYTES = 18
# The first byte of a hash: files that do not have a wanted one are passed over a million at a time.
TAGS = range(256)
FEW_KEYS = 64

OPEN_FILES = Path("/proc/self/fd")
INDEXED = ("path", "size", "deletionVector")

Packed: TypeAlias = bytes | IO[bytes]
"""A Parquet file of the checkpoint: its content, or a temporary file with it, which is removed with the object."""


class Checkpoint:
    def __init__(self, files: Sequence[Packed], manifest: bytes = b"") -> None:
        """`manifest`: the top of a checkpoint that is written in JSON, as a commit is."""
        self._files = files
        self._hashes, self._sizes, self._has_vector = array("q"), array("q"), array("b")
        self.table_actions = TableActions()
        self._inline: list[AddBatch] = []
        self._decoded: list[FileRows] = []
        self._decoded_bytes = 0
        self._known: KnownPartitions = {}
        packed_bytes = sum(len(file) for file in files if isinstance(file, bytes))
        self.disk_bytes = sum(file.seek(0, 2) for file in files if not isinstance(file, bytes))
        self._is_decoded = packed_bytes + self.disk_bytes <= DECODED_BYTES
        with undamaged():
            self._take_manifest(manifest)
            for file in files:
                _check_beginning(file)
                with contextlib.nullcontext(file) if self._is_decoded else _narrowed(file) as content:
                    for batch in _batches(content):
                        self._take(batch)
        self._tags = _tags(self._hashes)
        self.totals = Totals(len(self._sizes), sum(self._sizes), sum(self._has_vector))
        self.memory_bytes = packed_bytes + self._decoded_bytes + INDEX_BYTES * len(self._sizes)

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
            known: KnownPartitions = {}
            with undamaged():
                for batch in chain.from_iterable(map(_batches, self._files)):
                    rows = FileRows.of(batch, known)
                    rows.check()
                    yield rows

    def totals_of(self, keys: Collection[FileKey]) -> Totals:
        """Of the files that have one of `keys`. It goes by hashes: of a million files, one key in 10^13 is mistaken."""
        wanted = set(map(hash, keys))
        rows = [row for row in self._candidates(wanted) if self._hashes[row] in wanted]
        return Totals(len(rows), sum(self._sizes[row] for row in rows), sum(self._has_vector[row] for row in rows))

    def _candidates(self, wanted: Collection[int]) -> Iterable[int]:
        if len(wanted) > FEW_KEYS:
            return range(len(self._hashes))
        tags = set(_tags(array("q", wanted)))
        is_candidate = self._tags.translate(bytes(tag in tags for tag in TAGS))
        return (found.start() for found in re.finditer(b"\1", is_candidate))

    def _take_manifest(self, manifest: bytes) -> None:
        adds = []
        for action in actions.json_actions(manifest):
            if (add := action.get("add")) is not None:
                adds.append(actions.add(add))
            else:
                self.table_actions.take(action)
        if adds:
            inline = AddBatch.of(adds)
            self._inline.append(inline)
            self._index(inline)

    def _take(self, batch: RecordBatch) -> None:
        self.table_actions.take_rows(batch)
        rows = FileRows.of(batch, self._known)
        if self._is_decoded:
            rows.check()
            self._keep(rows)
        self._index(rows)

    def _keep(self, rows: FileRows) -> None:
        self._decoded.append(rows)
        self._decoded_bytes += rows.memory_bytes
        if self._decoded_bytes > MAX_DECODED_BYTES:  # it was packed very well
            self._is_decoded = False
            self._decoded.clear()
            self._decoded_bytes = 0

    def _index(self, files: FileBatch) -> None:
        self._hashes.extend(map(hash, file_keys(files.paths, files.deletion_vectors)))
        self._sizes.extend(files.sizes)
        self._has_vector.extend(map(bool, files.deletion_vectors))


def _tags(hashes: "array[int]") -> bytes:
    return hashes.tobytes()[:: hashes.itemsize]


def _batches(file: Packed) -> Iterator[RecordBatch]:
    if isinstance(file, bytes):
        return read_parquet(file, batch_size=BATCH_ROWS)
    # By its number, where that is possible: it may have no name any more.
    path = str(OPEN_FILES / str(file.fileno())) if OPEN_FILES.exists() else file.name
    return read_parquet(path, batch_size=BATCH_ROWS)


def _check_beginning(file: Packed) -> None:
    """arro3 does not look there, and a panic in the middle of a file ends the process."""
    if isinstance(file, bytes):
        beginning = file[: len(MAGIC)]
    else:
        file.seek(0)
        beginning = file.read(len(MAGIC))
    if beginning != MAGIC:
        raise ValueError("a checkpoint is no Parquet file")


@contextlib.contextmanager
def _narrowed(file: Packed) -> Iterator[Packed]:
    """The file without the columns that only its answers need: statistics are nine tenths of it."""
    try:
        footer = narrowed_footer(file, _is_for_index)
    except ValueError:  # then it takes longer
        footer = b""
    if isinstance(file, bytes):
        yield file + footer
        return
    end = file.seek(0, 2)
    try:
        with contextlib.suppress(OSError):  # no room for it
            file.write(footer)
            file.flush()
        yield file
    finally:
        file.truncate(end)


def _is_for_index(path: tuple[str, ...]) -> bool:
    return path[0] in TABLE_ACTIONS or (path[0] == "add" and path[1] in INDEXED)


@contextlib.contextmanager
def undamaged(*unrelated: type[Exception]) -> Iterator[None]:
    """Turns any failure to decode a checkpoint into a refusal of the table. Passes `unrelated` exceptions on."""
    try:
        yield
    except (SharingError, MemoryError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except unrelated:
        raise
    except BaseException as problem:  # arro3 panics on a damaged file, and a panic is no Exception
        raise MalformedRequestError("A checkpoint of the table's transaction log is damaged.") from problem
