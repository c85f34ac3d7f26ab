"""Says where a log is damaged and what is wrong, for the provider. The text never contains values of the table."""

import contextlib
from collections.abc import Iterator
from typing import Any

import orjson

from core.delta.log.segment import FOLDER
from core.errors import DamagedLogError, SharingError

# Errors of parsing and checking an action.
INVALID = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
NAMED_ACTIONS = frozenset({"add", "remove", "cdc", "sidecar"})
MAX_CHARACTERS = 200


class Position:
    """The file, line and action that are being read. Line 0 is before the first line."""

    __slots__ = ("action", "file", "line")

    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 0
        self.action: dict[str, Any] | None = None

    def damage(self, error: BaseException) -> DamagedLogError:
        what, name = what_is_wrong(error), next(iter(self.action or ()), None)
        if name in NAMED_ACTIONS:
            what = f"{name}: {what}"
        return DamagedLogError(what, file=self.file or None, line=self.line or None)


@contextlib.contextmanager
def valid_actions(file: str) -> Iterator[Position]:
    """Turns an invalid action into a `DamagedLogError` at the position that was reached."""
    at = Position(file)
    try:
        yield at
    except INVALID as error:
        raise at.damage(error) from error


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


def log_file(key: str) -> str:
    """Returns the path of a log file relative to the table, from its key."""
    outside, folder, name = key.rpartition(FOLDER)
    return f"{folder}{name}" if folder else outside + name


def what_is_wrong(error: BaseException) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return f"not valid JSON ({error.msg}, column {error.colno})"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    text = str(error).partition("\n")[0] or type(error).__name__
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
