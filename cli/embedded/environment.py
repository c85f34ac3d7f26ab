"""Where the tools are installed that cannot share an environment with us: first of all the embedded AWS.

MiniStack pins a botocore of its own, so it gets its own environment, made once per user and shared by all checkouts.
The folder's name carries a hash of the pinned requirements: a new pin makes a new environment.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cli.errors import CommandError

REQUIREMENTS = Path(__file__).with_name("ministack.txt")
OVERRIDE = "SLUICE_MINISTACK_PYTHON"


def ministack_python() -> Path:
    """The interpreter that has MiniStack; makes its environment if it is not there yet."""
    if override := os.environ.get(OVERRIDE):
        return Path(override)
    return tool_python(REQUIREMENTS)


def tool_python(requirements: Path) -> Path:
    """The interpreter that has the pinned requirements and nothing else; makes its environment if need be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
    fingerprint = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache / f"{requirements.stem}-{fingerprint}"
    if not (home / "ready").exists():
        _install(requirements, home)
    return home / "bin" / "python"


def find_uv() -> str | None:
    beside_the_checkout = Path(__file__).parents[2] / ".tools" / "uv" / "bin" / "uv"
    return shutil.which("uv") or (str(beside_the_checkout) if beside_the_checkout.exists() else None)


def _install(requirements: Path, home: Path) -> None:
    """Build beside the final place and move it there, so that no half environment is ever used."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="installing-") as scratch:
        draft = Path(scratch) / "environment"
        python = str(draft / "bin" / "python")
        if uv := find_uv():
            commands = [
                [uv, "venv", "--quiet", "--python", sys.executable, str(draft)],
                [uv, "pip", "install", "--quiet", "--python", python, "-r", str(requirements)],
            ]
        else:
            commands = [
                [sys.executable, "-m", "venv", str(draft)],
                [python, "-m", "pip", "install", "--quiet", "-r", str(requirements)],
            ]
        for command in commands:
            _run(requirements.stem, command)
        (draft / "ready").touch()
        try:
            draft.rename(home)
        except OSError:
            if not (home / "ready").exists():
                shutil.rmtree(home, ignore_errors=True)
                draft.rename(home)


def _run(tool: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise CommandError(f"{tool} could not be installed: {last_line}")


if __name__ == "__main__":
    ministack_python()
    for more in sys.argv[1:]:
        tool_python(Path(more))
