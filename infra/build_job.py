"""Builds the release that the index stack runs (infra/index.yaml) without Docker: `make build-job`.

Spark unpacks **dependencies.zip** for every driver and executor. **sluice.zip** holds our sources, for Spark and for
the function that starts runs. **job.py** is the entry point of a run. The name of the release's folder is a digest of
its content, so runs in progress keep their release, and CloudFormation notices a new one.
"""

import argparse
import hashlib
import shutil
import tempfile
from pathlib import Path

from infra.build import ROOT, copy_source, install, write_zip

# EMR Serverless runs on the same platform as our functions: arm64 and Python 3.13.
TARGET = "lambda"
# The dependency group in pyproject.toml that the job installs. EMR Serverless brings Spark itself.
GROUP = "job"
SOURCES = ("core", "pipeline")
HANDLERS = ("handlers/__init__.py", "handlers/start_index_job.py")
ENTRY_POINT = Path("pipeline", "job.py")


def build_job(folder: Path) -> Path:
    """Replaces the releases in `folder` with a new one. Returns its folder."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        dependencies, release = Path(scratch, "dependencies"), Path(scratch, "release")
        install(dependencies, TARGET, group=GROUP)
        release.mkdir()
        write_zip(dependencies, release / "dependencies.zip")
        write_sources(release / "sluice.zip")
        shutil.copyfile(ROOT / ENTRY_POINT, release / ENTRY_POINT.name)
        return Path(shutil.copytree(release, folder / _digest(release)))


def write_sources(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source in SOURCES:
            copy_source(source, Path(folder))
        Path(folder, "handlers").mkdir()
        for handler in HANDLERS:
            shutil.copyfile(ROOT / handler, Path(folder, handler))
        write_zip(Path(folder), archive)


def _digest(folder: Path) -> str:
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(folder.iterdir())]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output folder")
    release = build_job(parser.parse_args().folder)
    for path in sorted(release.iterdir()):
        print(f"{path}  {path.stat().st_size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
