"""A checkpoint: the state of a table at one version, as rows of Parquet.

A checkpoint stays encoded, in memory or in a temporary file, and is decoded in batches each time its files are read, so
a million files are never in memory at once. Only what totals need is kept per file: the hash of its key, its size, and
whether it has a deletion vector. A small checkpoint is kept decoded as well, because most tables are small and are read
again.
"""

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from arro3.core import RecordBatch

from core.delta.log import actions
from core.delta.log.actions import memory_of
from core.delta.log.batch import AddBatch, FileBatch
from core.delta.log.damage import undamaged, valid_actions
from core.delta.log.parquet import CheckpointFile, ParquetFile
from core.delta.log.reading import EncodedFiles, SkipPoint
from core.delta.log.rows import BYTES_PER_PARTITION, FileRows, PartitionCache
from core.delta.log.table_actions import TABLE_ACTIONS, TableActions
from core.delta.model import FileKey, Metadata, Protocol, Totals, file_keys

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

FIELDS_FOR_TOTALS = ("path", "size", "deletionVector")


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
        self._parts = [*map(CheckpointFile, files, file_names or [""] * len(files))]
        self._hashes, self._sizes, self._has_vector = array("q"), array("q"), array("b")
        self.table_actions = TableActions()
        self._inline: list[AddBatch] = []
        self._decoded: list[FileRows] = []
        self._decoded_bytes = 0
        self._partitions: PartitionCache = {}
        encoded_bytes = sum(part.size for part in self._parts if part.is_in_memory)
        self.disk_bytes = sum(part.size for part in self._parts if not part.is_in_memory)
        self._is_decoded = encoded_bytes + self.disk_bytes <= DECODED_BYTES
        self._take_manifest(manifest, manifest_name)
        self._num_inline = len(self._sizes)
        skip_points = [point for index in range(len(self._parts)) for point in self._take_part(index)]
        self._encoded = EncodedFiles(self._parts, skip_points, BATCH_ROWS)
        self._tags = _tags(self._hashes)
        self.totals = Totals(len(self._sizes), sum(self._sizes), sum(self._has_vector))
        inline_bytes = sum(memory_of(add) for batch in self._inline for add in batch.adds())
        kept_bytes = encoded_bytes + inline_bytes + self._decoded_bytes
        self._fixed_bytes = kept_bytes + BYTES_PER_FILE * len(self._sizes)

    @property
    def memory_bytes(self) -> int:
        """Grows while partition values are read for the first time, and with paused readings."""
        return self._fixed_bytes + BYTES_PER_PARTITION * len(self._partitions) + self._encoded.memory_bytes

    @property
    def protocol(self) -> Protocol | None:
        return self.table_actions.protocol

    @property
    def metadata(self) -> Metadata | None:
        return self.table_actions.metadata

    def batches(self, predicate: "Predicate | None" = None, after: int = 0) -> Iterator[tuple[int, FileBatch]]:  # noqa: ARG002
        num_files = 0
        decoded: list[FileBatch] = [*self._inline, *self._decoded]
        for batch in decoded:
            if num_files + batch.num_files > after:
                yield num_files, batch
            num_files += batch.num_files
        if not self._is_decoded:
            inline = self._num_inline
            for number, rows in self._encoded.after(max(after - inline, 0)):
                yield inline + number, rows

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

    def _take_part(self, index: int) -> Iterator[SkipPoint]:
        """Reads a Parquet file and yields its skip points."""
        part = self._parts[index]
        with undamaged(part.name):
            part.check_magic()
            yield self._skip_point(index)
            if self._is_decoded:
                for batch in part.batches(BATCH_ROWS):
                    self._take(batch, part.name)
                return
            for group, batch in part.by_row_group(BATCH_ROWS, _is_for_totals):
                if group:
                    yield self._skip_point(index, group)
                self._take(batch, part.name)

    def _skip_point(self, part: int, group: int = 0) -> SkipPoint:
        return SkipPoint(len(self._sizes) - self._num_inline, part, group)

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


def _is_for_totals(path: tuple[str, ...]) -> bool:
    return path[0] in TABLE_ACTIONS or (path[0] == "add" and path[1] in FIELDS_FOR_TOTALS)
