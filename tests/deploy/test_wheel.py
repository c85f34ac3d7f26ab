"""Installs the wheel like `uv tool install sluice-sharing`, and runs the command without the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.embedded.environment import find_uv

ROOT = Path(__file__).parents[2]


def uv(*arguments: str, env: dict[str, str] | None = None) -> str:
    command = find_uv()
    assert command, "`make setup` installs uv"
    done = subprocess.run([command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


@dataclass(frozen=True)
class InstalledCommand:
    path: Path
    folder: Path
    """An empty working directory outside the checkout."""
    environment: dict[str, str]

    def run(self, *arguments: str) -> str:
        command = [str(self.path), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> InstalledCommand:
    """Installs the wheel for a user with an empty home directory, with the locked versions of its dependencies."""
    home = tmp_path_factory.mktemp("home")
    dropped = ("AWS_", "PYTHON", "SLUICE_", "UV_", "VIRTUAL_ENV", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    environment |= {
        "HOME": str(home),
        "PATH": f"{Path(find_uv() or '').parent}{os.pathsep}{os.environ['PATH']}",
        "UV_CACHE_DIR": uv("cache", "dir").strip(),  # shares downloads, but no environments
        "UV_TOOL_BIN_DIR": str(home / "bin"),
        "UV_TOOL_DIR": str(home / "tools"),
        "XDG_CACHE_HOME": str(home / "cache"),
        # The user's own package index settings still apply.
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config"),
        **{name: value for name, value in os.environ.items() if name.startswith(("UV_INDEX", "UV_DEFAULT_INDEX"))},
    }
    locked = home / "locked.txt"
    locked.write_text(uv("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-hashes"))
    options = ("--python", sys.executable, "--constraints", str(locked))
    uv("tool", "install", *options, str(wheel), env=environment)
    folder = home / "elsewhere"
    folder.mkdir()
    return InstalledCommand(home / "bin" / "sluice", folder, environment)


def test_the_wheel_has_the_command_its_data_files_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"handlers", "core", "pipeline", "cli", "infra"}
    assert {name for name in names if not name.endswith(".py")} == {
        *(f"{package}/py.typed" for package in ("handlers", "core", "pipeline", "cli")),
        "cli/embedded/awslambdaric.txt",
        "cli/embedded/ministack.txt",
        "infra/sam.txt",
        "infra/template.yaml",
    }


def test_the_distribution_is_not_the_project_that_is_called_sluice_on_pypi(wheel: Path) -> None:
    assert wheel.name.startswith("sluice_sharing-")


def test_the_installed_command_prints_its_version(installed: InstalledCommand, wheel: Path) -> None:
    version = wheel.name.split("-")[1]
    assert installed.run("--version") == f"sluice {version}\n"


def test_the_demo_runs_from_another_directory(installed: InstalledCommand) -> None:
    document = json.loads(installed.run("demo", "--json"))
    assert document["predicate"] == {"rows": 17_000, "filesListed": 17, "filesSkipped": 187}
    assert not list(installed.folder.iterdir())
    (embedded,) = Path(installed.environment["XDG_CACHE_HOME"], "sluice").iterdir()
    assert embedded.name.startswith("ministack-")
