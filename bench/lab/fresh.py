"""Runs one case of a benchmark in a fresh process, so that cases share neither memory nor caches.

A case is a module-level function, called by name. Its figures are returned with the peak memory of the process, so the
module must import at the top only what every case may hold in memory.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

Figures = dict[str, float]


class Clock:
    """Measures wall-clock time, and CPU time of all threads of the process, since its creation."""

    def __init__(self) -> None:
        self._started, self._cpu_started = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def figures(self) -> Figures:
        return {"seconds": self.seconds(), "cpu_seconds": time.process_time() - self._cpu_started}


def fresh(case: str, *arguments: str, environment: Mapping[str, str] = os.environ) -> Figures:
    """Run `case` (`module:function`, which takes strings) and return its figures."""
    command = [sys.executable, "-m", "bench.lab.fresh", case, *arguments]
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def peak_mb() -> float:
    """Return the peak memory of this process. `ru_maxrss` would include the parent's memory at the time of the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM: peak memory can be measured on Linux only")


def main() -> None:
    case, *arguments = sys.argv[1:]
    module, _, function = case.partition(":")
    figures = getattr(importlib.import_module(module), function)(*arguments)
    print(json.dumps(figures | {"peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
