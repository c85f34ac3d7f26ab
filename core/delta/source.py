"""Chooses the way a snapshot is read: from the log or from an index.

Both ways give the same answer, so the choice is an estimate of time and nothing else. A log must be opened as a whole
before its first file is read, and is then fast per file. An index reads only the chunks that may match a predicate, and
is slower per file.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.delta.model import Metadata
    from core.pruning.predicate import Predicate

# Seconds with a million files, rounded (docs/decisions/0018). Writing the lines of listed files takes the same time
# either way and is left out.
OPEN_LOG = 0.03
OPEN_LOG_BYTE = 6e-9
LOG_FILE = 1.2e-6
LOG_FILE_BY_PARTITION = 2.2e-6
LOG_FILE_BY_STATISTICS = 12.6e-6
OPEN_INDEX = 0.02
INDEX_FILE = 6e-6
# A log that takes longer to open delays the first line of an answer too much.
MAX_OPEN_LOG = 3.0
# The smallest batch that is decoded.
LOG_BATCH = 8192
# The least that a checkpoint has for each file. A listing has no sizes of sidecar files, or lacks the checkpoint.
BYTES_PER_FILE = 150


class Way(StrEnum):
    LOG = "log"
    INDEX = "index"


class Source(NamedTuple):
    way: Way
    reason: str
    """Follows "because"."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request reads of a snapshot."""

    num_files: int | None = None
    """About how many files it needs, for a page or a limit. None: all that may match."""
    predicate: "Callable[[Metadata], Predicate | None]" = lambda _: None


ALL_FILES = Demand()
NO_FILES = Demand(num_files=0)


class LogState(NamedTuple):
    num_files: int
    unread_bytes: int
    """Bytes of checkpoint and commits that this process has not read yet."""
    in_memory: bool
    """Whether the process has the checkpoint."""


def without_index(log: LogState, demand: Demand, predicate: "Predicate | None") -> Source | None:
    """Returns the log if an index cannot be faster, else None. Asking an index may take a request."""
    if not log.in_memory:
        return None
    if predicate is None:
        return Source(Way.LOG, "the log is in memory, and no predicate leaves files out")
    if log_seconds(log, demand, predicate, 1.0) <= OPEN_INDEX:
        return Source(Way.LOG, "the log is in memory and short")
    return None


def choose(log: LogState, index_files: int, demand: Demand, predicate: "Predicate | None") -> Source:
    """`index_files` is the number of files in the chunks of the index that may match."""
    share = index_files / log.num_files if log.num_files else 1.0
    by_log = log_seconds(log, demand, predicate, share)
    by_index = OPEN_INDEX + INDEX_FILE * _least(index_files, demand.num_files)
    opening = _opening(log)
    if opening > MAX_OPEN_LOG:
        return Source(Way.INDEX, f"opening the log takes about {opening:.1f} s")
    if by_log <= by_index:
        return Source(Way.LOG, f"it takes about {by_log:.2f} s, and the index about {by_index:.2f} s")
    return Source(Way.INDEX, f"it takes about {by_index:.2f} s, and the log about {by_log:.2f} s")


def log_seconds(log: LogState, demand: Demand, predicate: "Predicate | None", share: float) -> float:
    """`share` is the share of files that may match. To find a number of them, more files have to be read."""
    wanted = demand.num_files
    files = log.num_files
    if wanted is not None and share > 0:
        files = _least(files, max(LOG_BATCH, int(wanted / share)) if wanted else 0)
    per_file = LOG_FILE
    if predicate is not None:
        per_file = LOG_FILE_BY_STATISTICS if predicate.uses_stats else LOG_FILE_BY_PARTITION
    return _opening(log) + per_file * files


def _opening(log: LogState) -> float:
    return (0 if log.in_memory else OPEN_LOG) + OPEN_LOG_BYTE * log.unread_bytes


def _least(number: int, limit: int | None) -> int:
    return number if limit is None else min(number, limit)
