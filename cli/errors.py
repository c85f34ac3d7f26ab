"""How a command fails: one clear sentence for a person, exit code 1."""

from collections.abc import Mapping
from typing import Any


class CommandError(Exception):
    """Something that the caller can put right. The message says what is wrong and what to do."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        """`details` are what `--json` shows beside the message."""
        super().__init__(message)
        self.message = message
        self.details = details or {}
