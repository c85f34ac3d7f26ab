"""The error that ends a command with one sentence and exit code 1."""

from collections.abc import Mapping
from typing import Any


class CommandError(Exception):
    """An error that the caller can fix. The message names the cause and the fix."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        """`details` is shown next to the message with `--json`."""
        super().__init__(message)
        self.message = message
        self.details = details or {}
