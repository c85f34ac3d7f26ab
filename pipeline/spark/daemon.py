"""Starts Spark's Python workers on this machine, in the place of `pyspark.daemon`.

What workers need is imported once, here, and is there in each of them when this process forks. Spark has its own Python
code in zip files before the installed packages: modules of those are compiled anew by every process, and every task
reads their list of contents. Together that was a quarter of the workers' time for a million files.
"""

import contextlib
import gc
import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip")]
sys.path_importer_cache.clear()

from pyspark.daemon import manager  # noqa: E402

with contextlib.suppress(ImportError):
    import pandas  # noqa: F401, ICN001 - pyspark's workers import it where it is

if __name__ == "__main__":
    # Files by the thousand look to it like a leak. A worker collects what there is after each task.
    gc.disable()
    manager()  # type: ignore[no-untyped-call]
