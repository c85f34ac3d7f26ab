"""Builds a release into `dist/release/VERSION`: `make release`. RELEASING.md describes the steps around it.

A release holds the wheel and the source distribution, the Lambda packages, the index job, an SBOM and the checksums of
all of them. The version is the one in `pyproject.toml`. Nothing is built unless the checkout is ready for a release.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cli.embedded.environment import find_uv
from infra.build import write_zip
from infra.sbom import ROOT, commit_time, write_sbom

CHECKSUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Project:
    """A checkout, with the name and version from its `pyproject.toml`."""

    root: Path
    name: str
    version: str

    @classmethod
    def read(cls, root: Path) -> "Project":
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        return cls(root, project["name"], project["version"])

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}"


def problems(project: Project) -> list[str]:
    """Returns everything that prevents a release, each with its fix."""
    found = [*_uncommitted(project), *_changelog(project), *_lock(project), *_tags(project)]
    return [f"{cause} {fix}" for cause, fix in found]


def _uncommitted(project: Project) -> list[tuple[str, str]]:
    changed = [line[3:] for line in _git(project, "status", "--porcelain").splitlines()]
    if not changed:
        return []
    shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return [(f"The working tree has uncommitted changes: {shown}.", "Commit or stash them.")]


def _changelog(project: Project) -> list[tuple[str, str]]:
    heading = rf"^## \[?{re.escape(project.version)}\]?(\s|$)"
    if re.search(heading, (project.root / "CHANGELOG.md").read_text(), re.MULTILINE):
        return []
    return [(f"CHANGELOG.md has no section for {project.version}.", f"Add one: `## {project.version} - YYYY-MM-DD`.")]


def _lock(project: Project) -> list[tuple[str, str]]:
    packages = tomllib.loads((project.root / "uv.lock").read_text())["package"]
    if any((package["name"], package.get("version")) == (project.name, project.version) for package in packages):
        return []
    return [(f"uv.lock does not have {project.name} {project.version}.", "Run `uv lock` and commit the result.")]


def _tags(project: Project) -> list[tuple[str, str]]:
    found = []
    if _git(project, "tag", "--list", project.tag) and not _is_head(project, project.tag):
        fix = "Raise the version in pyproject.toml, or check out the tag."
        found.append((f"The tag {project.tag} exists and points to another commit.", fix))
    here = _git(project, "tag", "--points-at", "HEAD", "--list", "v[0-9]*").split()
    if here and project.tag not in here:
        fix = "Set the version of that tag in pyproject.toml, or release another commit."
        found.append((f"This commit has the tag {here[0]}, but pyproject.toml says {project.version}.", fix))
    return found


def _is_head(project: Project, tag: str) -> bool:
    return _git(project, "rev-parse", f"{tag}^{{commit}}") == _git(project, "rev-parse", "HEAD")


def _git(project: Project, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True).stdout.rstrip()


def build_release(project: Project, folder: Path) -> None:
    """Builds the release into `folder` and replaces its content. A failed build does not change it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        release, built = Path(scratch, "release"), Path(scratch, "built")
        release.mkdir()
        _build_distributions(release)
        _run([sys.executable, "-m", "infra.build", str(built)])
        for package in sorted((built / "lambda").glob("*.zip")):
            shutil.copyfile(package, release / f"{project.stem}-lambda-{package.name}")
        _run([sys.executable, "-m", "infra.build_job", str(built / "job")])
        write_zip(built / "job", release / f"{project.stem}-job.zip")
        write_sbom(release / f"{project.stem}.cdx.json")
        write_checksums(release)
        shutil.rmtree(folder, ignore_errors=True)
        release.rename(folder)


def _build_distributions(folder: Path) -> None:
    # hatchling uses this time for the entries of both archives.
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(commit_time())}
    _run([find_uv() or "uv", "build", "--quiet", "--out-dir", str(folder)], environment)
    (folder / ".gitignore").unlink(missing_ok=True)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit(f"`{' '.join(command)}` failed with exit code {code}. Nothing was released.")


def write_checksums(folder: Path) -> None:
    """Writes the SHA-256 of every file in the format of `sha256sum --check`."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / CHECKSUMS).write_text("".join(lines))


def next_steps(project: Project, folder: Path) -> str:
    tagged = bool(_git(project, "tag", "--list", project.tag))
    steps = [] if tagged else [f'git tag -a {project.tag} -m "Sluice {project.version}"']
    steps += [
        f"git push origin {project.tag}",
        f"uv publish {folder}/*.whl {folder}/*.tar.gz",
        f"gh release create {project.tag} --verify-tag --notes-from-tag {folder}/*",
    ]
    return "\n".join(["Next:", *(f"  {step}" for step in steps), "Details: RELEASING.md"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dist", type=Path, help="output folder; the release is written to release/VERSION in it")
    project = Project.read(ROOT)
    if found := problems(project):
        raise SystemExit("\n".join([f"{project.stem} cannot be released:", *(f"- {problem}" for problem in found)]))
    folder = parser.parse_args().dist / "release" / project.version
    build_release(project, folder)
    for path in sorted(folder.iterdir()):
        print(f"{path}  {path.stat().st_size / 2**20:.1f} MB")
    print(next_steps(project, folder))


if __name__ == "__main__":
    main()
