"""Asks a predicate of files as they come, in batches: a column of many files costs little more than that of one."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from core.pruning.columns import File, FileColumns, row_count
from core.pruning.evaluate import EVERY, SOME
from core.pruning.predicate import Predicate

# The first batch is small, so that a limit or a first line does not wait for files that it does not need.
FIRST_BATCH, LAST_BATCH = 64, 4096

F = TypeVar("F", bound=File)


def judge(files: Iterable[F], predicate: Predicate | None) -> Iterator[tuple[F, int]]:
    """Each file with what is said of it: `SOME`, `SOME | EVERY`, 0 or `BY_PARTITION`."""
    if predicate is None:
        for file in files:
            yield file, SOME | EVERY
        return
    coming, size = iter(files), FIRST_BATCH
    while batch := list(islice(coming, size)):
        yield from zip(batch, predicate.evaluate(FileColumns(batch)), strict=True)
        size = min(2 * size, LAST_BATCH)


def sure_rows(file: File, verdict: int) -> int:
    """How many rows of the file surely match: all or, for what is known, none."""
    return row_count(file) if verdict & EVERY else 0
