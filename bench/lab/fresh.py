"""Runs one case of a bench in a process of its own, so that its memory and its caches are its own.

A case is a function of a bench's module, called by its name. What it returns comes back with the process's peak memory:
such a module imports at its top only what every case may hold.
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
    """Seconds since it was made: on the wall, and of CPU in all threads of the process."""

    def __init__(self) -> None:
        self._started, self._cpu_started = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def figures(self) -> Figures:
        return {"seconds": self.seconds(), "cpu_seconds": time.process_time() - self._cpu_started}


def fresh(case: str, *arguments: str, environment: Mapping[str, str] = os.environ) -> Figures:
    """`case`: `module:function`, of strings."""
    command = [sys.executable, "-m", "bench.lab.fresh", case, *arguments]
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def peak_mb() -> float:
    """Not `ru_maxrss`: that one begins with what the parent held when it started this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not tell a process's peak memory")


def main() -> None:
    case, *arguments = sys.argv[1:]
    module, _, function = case.partition(":")
    figures = getattr(importlib.import_module(module), function)(*arguments)
    print(json.dumps(figures | {"peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
