"""Builds the packages of the functions without Docker: `make build`.

**thin** holds the routes that do not read tables, **full** those that do. The content depends only on `uv.lock` and the
checkout, so two builds are identical. Each package is first built for this machine, where all its handlers must
import, and then for Lambda.
"""

import argparse
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from cli.embedded.environment import find_uv

ROOT = Path(__file__).parents[1]
SOURCES = ("core", "handlers")

# Each package and the dependency group in pyproject.toml that it installs. Functions use botocore without boto3
# (decision 0002), and only the command cross-checks tables with deltalake.
PACKAGES = {"thin": "functions", "full": "table-functions"}
# The handlers of the full package. All other routes are in the thin one.
READ_TABLES = frozenset({"query_status", "query_table", "table_changes", "table_metadata"})
# Handlers of the full package that are not routes: the worker of asynchronous queries.
WORKERS = frozenset({"prepare_query"})
# The program that starts the functions that stream. They are all in the full package.
WRAPPER = ROOT / "infra" / "full" / "stream"
# The handlers of other stacks, which have packages of their own (infra/build_job.py).
OTHER_STACKS = frozenset({"start_index_job"})
# Parts of core that no function uses: they change the catalog, start the index job, and compare tables with deltalake.
NOT_FOR_FUNCTIONS = ("core/catalog/admin", "core/index/write/job_runs.py", "core/delta/cross_check.py")
# Parts of core that only the worker uses. They have 60 KB, so the worker shares the full package.
FOR_WORKERS = ("core/index/write", "core/queries/worker.py")

LAMBDA_PYTHON = "3.13"
PLATFORMS = {
    "lambda": ("--python-platform", "aarch64-manylinux_2_28", "--python-version", LAMBDA_PYTHON),
    "host": ("--python", sys.executable),
}
# 25 of botocore's 29 MB are data of services that no function calls.
BOTOCORE_SERVICES = frozenset({"dynamodb", "s3", "sqs", "sts"})
# Files that functions do not read, or that differ between machines. Licences stay.
DROPPED = ["__pycache__", "tests", "bin", "sboms", "*-stubs", "*.pyi", "*.c", "py.typed", ".lock", "RECORD", "WHEEL"]
MAX_UNPACKED = 250 * 2**20
READABLE, EXECUTABLE = 0o644, 0o755

IMPORTS = """
import importlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
for module in sorted(pathlib.Path(sys.argv[1], "handlers").glob("[!_]*.py")):
    importlib.import_module(f"handlers.{module.stem}").lambda_handler
importlib.import_module("core.runtime.streaming")
"""


def build(package: str, target: str, folder: Path) -> None:
    """Writes a package for a platform to `folder`, which must not exist yet."""
    install(folder, target, group=PACKAGES[package])
    for source in SOURCES:
        copy_source(source, folder)
    for path in (*NOT_FOR_FUNCTIONS, *(FOR_WORKERS if package == "thin" else ())):
        _remove(folder / path)
    for handler in (folder / "handlers").glob("[!_]*.py"):
        if handler.stem in OTHER_STACKS or (handler.stem in READ_TABLES | WORKERS) != (package == "full"):
            handler.unlink()
    if package == "full":
        shutil.copyfile(WRAPPER, folder / WRAPPER.name)
        (folder / WRAPPER.name).chmod(EXECUTABLE)
    _compile(folder, target)
    size = unpacked_size(folder)
    if size > MAX_UNPACKED:
        raise SystemExit(
            f"The {package} package for {target} has {size:,} bytes unpacked. Lambda accepts at most {MAX_UNPACKED:,}."
        )


def install(folder: Path, target: str, *, group: str) -> None:
    """Installs a dependency group in the versions of `uv.lock`, without the files that no function reads."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        exported = _uv("export", "--frozen", "--only-group", group, "--no-header", "--no-annotate")
        requirements.write(exported)
        requirements.flush()
        arguments = ("pip", "install", "--target", str(folder), "--link-mode", "copy", "--only-binary", ":all:")
        _uv(*arguments, "--require-hashes", "--no-installer-metadata", *PLATFORMS[target], "-r", requirements.name)
    _strip(folder)


def copy_source(source: str, folder: Path) -> None:
    shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns("__pycache__", "py.typed"))


def import_handlers(folder: Path) -> None:
    """Imports every handler of a package for this machine as Lambda does, without other installed packages."""
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_REGION": "eu-west-1",
        "AWS_LAMBDA_FUNCTION_NAME": "build",  # makes handlers create their clients at import
        "SLUICE_STORAGE_ROLE_ARN": "arn:aws:iam::000000000000:role/build",
    }
    # -I: no PYTHON* variables, no user site, no working directory; -S: no site-packages; -B: writes no bytecode.
    command = [sys.executable, "-I", "-S", "-B", "-c", IMPORTS, str(folder)]
    if subprocess.run(command, env=environment, check=False).returncode:
        raise SystemExit(f"A handler cannot be imported from {folder}.")


def write_zip(folder: Path, archive: Path) -> None:
    """Writes an archive that depends only on names and content: sorted, with one date and fixed modes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in _files(folder):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = EXECUTABLE if entry.filename == WRAPPER.name else READABLE
            entry.external_attr = (stat.S_IFREG | mode) << 16
            written.writestr(entry, path.read_bytes())


def unpacked_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _strip(folder: Path) -> None:
    for pattern in DROPPED:
        for path in list(folder.rglob(pattern)):
            _remove(path)
    for service in (folder / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in BOTOCORE_SERVICES:
            _remove(service)


def _compile(folder: Path, target: str) -> None:
    """Adds bytecode, which halves a cold start. Python cannot cache it itself, because Lambda's folder is read-only.

    Requires the target's version of Python. Python does not check the bytecode against file dates, which deployment
    changes.
    """
    if python := sys.executable if target == "host" else _find_lambda_python():
        compileall = [python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        subprocess.run([*compileall, "-s", str(folder), "-p", "/var/task", str(folder)], check=True)


def _find_lambda_python() -> str | None:
    return _run_uv("python", "find", LAMBDA_PYTHON).stdout.strip() or None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _uv(*arguments: str) -> str:
    done = _run_uv(*arguments)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(arguments[:2])} failed: {done.stderr.strip()}")
    return done.stdout


def _run_uv(*arguments: str) -> "subprocess.CompletedProcess[str]":
    uv = find_uv()
    if uv is None:
        raise SystemExit("uv is not installed. Run `make build`, which installs it.")
    return subprocess.run([uv, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _build_all(dist: Path) -> Iterator[tuple[str, ...]]:
    """Builds and imports each package for this machine, then builds it for Lambda. Yields a table row per build."""
    for package in PACKAGES:
        host, shipped = dist / "host" / package, dist / "lambda" / package
        shutil.rmtree(host, ignore_errors=True)
        build(package, "host", host)
        import_handlers(host)
        yield package, f"this machine ({platform.machine()})", *_bytecode_and_size(host), "", ""
        shutil.rmtree(shipped, ignore_errors=True)
        build(package, "lambda", shipped)
        archive = shipped.with_suffix(".zip")
        write_zip(shipped, archive)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
        size = _megabytes(archive.stat().st_size)
        yield package, f"Lambda (arm64, Python {LAMBDA_PYTHON})", *_bytecode_and_size(shipped), size, digest


def _bytecode_and_size(folder: Path) -> tuple[str, str]:
    bytecode = "yes" if next(folder.rglob("*.pyc"), None) else f"no (needs `uv python install {LAMBDA_PYTHON}`)"
    return bytecode, _megabytes(unpacked_size(folder))


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dist", type=Path, help="output folder; the packages are written to host/ and lambda/ in it")
    rows: list[tuple[str, ...]] = [("package", "for", "bytecode", "unpacked", "zipped", "sha256 of the zip")]
    rows += _build_all(parser.parse_args().dist)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
