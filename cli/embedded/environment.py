"""Virtual environments of tools that cannot share ours, such as the embedded AWS.

MiniStack pins its own botocore, so it has its own environment, created once per user and shared by all checkouts. The
name of its folder contains a hash of the pinned requirements, so a changed pin creates a new environment.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cli.common.errors import CommandError

REQUIREMENTS = Path(__file__).with_name("ministack.txt")
OVERRIDE = "SLUICE_MINISTACK_PYTHON"


def ministack_python() -> Path:
    """Returns the interpreter with MiniStack. Creates its environment on first use."""
    if override := os.environ.get(OVERRIDE):
        return Path(override)
    return tool_python(REQUIREMENTS)


def tool_python(requirements: Path) -> Path:
    """Returns the interpreter with exactly the pinned requirements. Creates its environment on first use."""
    home = _home(requirements)
    if not is_installed(requirements):
        _install(requirements, home)
    return home / "bin" / "python"


def is_installed(requirements: Path) -> bool:
    return (_home(requirements) / "ready").exists()


def _home(requirements: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
    fingerprint = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return cache / f"{requirements.stem}-{fingerprint}"


def find_uv() -> str | None:
    in_checkout = Path(__file__).parents[2] / ".tools" / "uv" / "bin" / "uv"
    return shutil.which("uv") or (str(in_checkout) if in_checkout.exists() else None)


def _install(requirements: Path, home: Path) -> None:
    """Builds in a temporary folder and renames it, so an incomplete environment is never used."""
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
    for requirements in sys.argv[1:]:
        tool_python(Path(requirements))
