"""Restores errors of `core` that Spark passes from its Python workers to the job as text."""

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException

from core import errors
from core.errors import MalformedRequestError, SharingError

# The last line of a worker's traceback: the class of the error and its message.
RAISED = re.compile(r"^core\.[\w.]+\.(\w+): (.+)$", re.MULTILINE)


@contextlib.contextmanager
def worker_errors() -> Iterator[None]:
    """Raises an error of `core` from a worker as if this process had raised it."""
    try:
        yield
    except PySparkException as error:
        raised = RAISED.search(str(error))
        if raised is None:
            raise
        error_class = getattr(errors, raised[1], MalformedRequestError)
        # Not by its own constructor, which may compose the message from other arguments.
        restored = error_class.__new__(error_class)
        SharingError.__init__(restored, raised[2])
        raise restored from error
