"""Where the embedded AWS is installed.

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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
    fingerprint = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache / f"ministack-{fingerprint}"
    if not (home / "ready").exists():
        _install(home)
    return home / "bin" / "python"


def _install(home: Path) -> None:
    """Build beside the final place and move it there, so that no half environment is ever used."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="installing-") as scratch:
        draft = Path(scratch) / "environment"
        python = str(draft / "bin" / "python")
        uv = _uv()
        if uv:
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(draft)])
            _run([uv, "pip", "install", "--quiet", "--python", python, "-r", str(REQUIREMENTS)])
        else:
            _run([sys.executable, "-m", "venv", str(draft)])
            _run([python, "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)])
        (draft / "ready").touch()
        try:
            draft.rename(home)
        except OSError:
            if not (home / "ready").exists():
                shutil.rmtree(home, ignore_errors=True)
                draft.rename(home)


def _uv() -> str | None:
    beside_the_checkout = Path(__file__).parents[2] / ".tools" / "uv" / "bin" / "uv"
    return shutil.which("uv") or (str(beside_the_checkout) if beside_the_checkout.exists() else None)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise CommandError(f"The embedded AWS could not be installed: {last_line}")


if __name__ == "__main__":
    ministack_python()
