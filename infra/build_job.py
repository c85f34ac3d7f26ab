"""Builds what the index's stack runs (infra/index.yaml), without Docker: `make build-job`.

**dependencies.zip** is unpacked by Spark beside every driver and executor. **sluice.zip** has our sources, for Spark
and for the function that starts runs, and **job.py** is where a run begins. They lie in a folder named after their
content: a new release is a new place, so that runs go on with what they began with, and CloudFormation sees the change.
"""

import argparse
import hashlib
import shutil
import tempfile
from pathlib import Path

from infra.build import ROOT, copy_source, install, write_zip

# EMR Serverless is Lambda's platform: arm64 and Python 3.13.
TARGET = "lambda"
EXTRAS = ("pipeline",)
# Spark is there already, the judge is the command's, and the rest is for functions that serve recipients.
PRUNED = ("pyspark", "deltalake", "pydantic", "aws-lambda-powertools")
SOURCES = ("core", "pipeline")
ENTRY_POINT = Path("pipeline", "job.py")


def build_job(folder: Path) -> Path:
    """Put a release into `folder`, in the place of those that are there. Returns where it is."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        dependencies, release = Path(scratch, "dependencies"), Path(scratch, "release")
        install(dependencies, TARGET, pruned=PRUNED, extras=EXTRAS)
        release.mkdir()
        write_zip(dependencies, release / "dependencies.zip")
        write_sources(release / "sluice.zip")
        shutil.copyfile(ROOT / ENTRY_POINT, release / ENTRY_POINT.name)
        return Path(shutil.copytree(release, folder / _digest(release)))


def write_sources(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source in SOURCES:
            copy_source(source, Path(folder))
        write_zip(Path(folder), archive)


def _digest(folder: Path) -> str:
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(folder.iterdir())]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder that gets the release")
    release = build_job(parser.parse_args().folder)
    for path in sorted(release.iterdir()):
        print(f"{path}  {path.stat().st_size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
