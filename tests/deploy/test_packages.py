"""The packages that `make build` builds: their content, their size, and that builds are reproducible."""

import hashlib
import importlib.util
import marshal
import shutil
import struct
import sys
from itertools import product
from pathlib import Path

import pytest

from cli.serve.routes import read_template
from infra.build import (
    FOR_WORKERS,
    MAX_UNPACKED,
    NOT_FOR_FUNCTIONS,
    PACKAGES,
    READ_TABLES,
    ROOT,
    WORKERS,
    WRAPPER,
    build,
    import_handlers,
    unpacked_size,
    write_zip,
)

AARCH64 = 183
UNCHECKED_HASH = 0b01


@pytest.fixture(scope="module")
def for_lambda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lambda")
    for package in PACKAGES:
        build(package, "lambda", folder / package)
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages for this machine."""
    folder = tmp_path_factory.mktemp("host")
    for package in PACKAGES:
        build(package, "host", folder / package)
    return folder


@pytest.fixture(scope="module")
def thin(host: Path) -> Path:
    return host / "thin"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_two_builds_are_identical(for_lambda: Path, tmp_path: Path, package: str) -> None:
    again = tmp_path / "in a folder of another name"
    build(package, "lambda", again)
    assert digests(again) == digests(for_lambda / package)


def test_a_zip_depends_only_on_the_content(thin: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(thin, tmp_path / "copy", copy_function=shutil.copyfile)  # other dates
    (copy / "six.py").chmod(0o600)
    write_zip(thin, tmp_path / "one.zip")
    write_zip(copy, tmp_path / "other.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_fits_into_lambda(for_lambda: Path, package: str) -> None:
    assert unpacked_size(for_lambda / package) < MAX_UNPACKED


@pytest.mark.parametrize("package", PACKAGES)
def test_native_code_matches_the_processor_and_python_of_lambda(for_lambda: Path, package: str) -> None:
    libraries = list((for_lambda / package).rglob("*.so*"))
    assert libraries
    for library in libraries:
        assert library.read_bytes()[:4] == b"\x7fELF"
        assert struct.unpack_from("<H", library.read_bytes(), 18) == (AARCH64,), library.name
        assert "cpython-313-aarch64" in library.name or "abi3" in library.name


def test_only_the_full_package_has_a_parquet_reader_and_none_has_unused_dependencies(for_lambda: Path) -> None:
    def top_level_names(package: str) -> set[str]:
        return {path.name for path in (for_lambda / package).iterdir() if not path.name.endswith(".dist-info")}

    assert {"core", "handlers", "botocore", "orjson", "aws_lambda_powertools"} <= top_level_names("thin")
    assert top_level_names("full") - top_level_names("thin") == {"arro3", WRAPPER.name}
    assert not {"boto3", "pydantic", "deltalake", "cli", "tests", "infra", "bin"} & top_level_names("full")


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_no_function_reads_are_not_shipped(for_lambda: Path, package: str) -> None:
    shipped = digests(for_lambda / package)
    assert not [name for name in shipped if name.endswith((".pyi", "py.typed", "RECORD")) or "/tests/" in name]
    services = {path.name for path in (for_lambda / package / "botocore" / "data").iterdir() if path.is_dir()}
    assert services == {"dynamodb", "s3", "sqs", "sts"}


@pytest.mark.parametrize(("package", "path"), [*product(PACKAGES, NOT_FOR_FUNCTIONS), *product(["thin"], FOR_WORKERS)])
def test_parts_of_core_that_no_function_of_a_package_uses_are_not_shipped(
    for_lambda: Path, package: str, path: str
) -> None:
    assert (ROOT / path).exists()
    assert not (for_lambda / package / path).exists()
    assert (for_lambda / package / "core").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_licences_are_shipped_with_the_code(for_lambda: Path, package: str) -> None:
    for description in (for_lambda / package).glob("*.dist-info"):
        assert (description / "METADATA").exists()
    assert list((for_lambda / package).glob("botocore-*.dist-info/LICENSE*"))


def test_each_package_has_exactly_the_handlers_that_the_template_assigns_to_it(for_lambda: Path) -> None:
    template = read_template()
    default = template["Globals"]["Function"]["CodeUri"]
    handlers: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            assert resource["Metadata"] == {"BuildMethod": "makefile"}
            properties = resource["Properties"]
            handlers[properties.get("CodeUri", default)].add(properties["Handler"].split(".")[1])
    assert handlers["full"] == READ_TABLES | WORKERS
    for package, expected in handlers.items():
        assert {path.stem for path in (for_lambda / package / "handlers").glob("[!_]*.py")} == expected


def test_bytecode_depends_neither_on_file_dates_nor_on_the_build_folder(thin: Path) -> None:
    for source in (thin / "core" / "settings.py", thin / "botocore" / "session.py"):
        compiled = Path(importlib.util.cache_from_source(str(source))).read_bytes()
        assert struct.unpack_from("<I", compiled, 4) == (UNCHECKED_HASH,)
        assert marshal.loads(compiled[16:]).co_filename == f"/var/task/{source.relative_to(thin)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_handler_imports_from_its_package_without_other_packages(host: Path, package: str) -> None:
    assert list((host / package / "handlers").glob("[!_]*.py"))
    import_handlers(host / package)


def test_a_handler_that_needs_more_than_its_package_fails_the_build(thin: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(thin, tmp_path / "broken")
    assert importlib.util.find_spec("deltalake"), f"{sys.prefix} has it, the package does not"
    (broken / "handlers" / "broken.py").write_text("import deltalake\nlambda_handler = None\n")
    with pytest.raises(SystemExit, match="cannot be imported"):
        import_handlers(broken)
