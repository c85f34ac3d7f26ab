"""Errors of `core` that Spark passes from its Python workers to the job as text."""

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException

from core import errors
from core.errors import MalformedRequestError

# The last line of a worker's traceback.
RAISED = re.compile(r"^core\.[\w.]+\.(\w+): (.+)$", re.MULTILINE)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Raises the error of a worker that refuses a table as if this process had raised it."""
    try:
        yield
    except PySparkException as error:
        raised = RAISED.search(str(error))
        if raised is None:
            raise
        raise getattr(errors, raised[1], MalformedRequestError)(raised[2]) from error
