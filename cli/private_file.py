"""Files that hold a secret: readable by their owner only, and never seen half written."""

import os
import tempfile
from pathlib import Path

from cli.errors import CommandError


def write_private(path: Path, text: str) -> None:
    """Write with mode 0600, in the place of what is there."""
    try:
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink()
            raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
