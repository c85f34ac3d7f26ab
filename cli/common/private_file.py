"""Writes files with secrets atomically, readable only by their owner."""

import os
import tempfile
from pathlib import Path

from cli.common.errors import CommandError


def write_private(path: Path, text: str) -> None:
    """Writes the file with mode 0600, replacing an existing one."""
    try:
        # mkstemp creates files with mode 0600.
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink()
            raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
