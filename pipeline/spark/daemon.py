"""Starts Spark's Python workers on this machine, in place of `pyspark.daemon`.

Modules that workers need are imported once, here, before this process forks them. Spark puts zip files with its own
Python code in front of the installed packages. They are removed from the path, because every process compiles their
modules again and every task lists their contents. Together that was a quarter of the workers' time for a million files.
"""

import contextlib
import gc
import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip")]
sys.path_importer_cache.clear()

from pyspark.daemon import manager  # noqa: E402

with contextlib.suppress(ImportError):
    import pandas  # noqa: F401, ICN001 - pyspark's workers import it if it is installed

if __name__ == "__main__":
    # With many thousands of live objects, each collection is slow. Workers collect garbage after each task anyway.
    gc.disable()
    manager()  # type: ignore[no-untyped-call]
