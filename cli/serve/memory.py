"""Keeps the resident memory of the server close to what it uses.

The buffers of an answer are large and live shortly. By default, glibc keeps freed buffers for later, in up to eight
arenas per core, and a server that has answered large queries in many threads stays several times as large as it needs
to be. Other C libraries have no such functions, and are left alone.
"""

import contextlib
import ctypes
import threading
import time
from collections.abc import Iterator

# Parameters of `mallopt`, from malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
ARENAS = 2
# Buffers from this size on return to the system as soon as they are freed. glibc would raise it up to 32 MB.
MMAP_BYTES = 256 * 1024
TRIM_BYTES = 1024 * 1024
TRIM_SECONDS = 5.0
# A server that used less processor time than this since the last time has little to return.
MIN_CPU_SECONDS = 0.05


@contextlib.contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Inside the block, returns freed memory to the system every few seconds, unless the server is idle."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    for parameter, value in ((M_ARENA_MAX, ARENAS), (M_MMAP_THRESHOLD, MMAP_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES)):
        libc.mallopt(parameter, value)
    stopped = threading.Event()

    def trim() -> None:
        used = time.process_time()
        while not stopped.wait(TRIM_SECONDS):
            if time.process_time() - used >= MIN_CPU_SECONDS:
                libc.malloc_trim(0)
            used = time.process_time()

    thread = threading.Thread(target=trim, name="memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
