"""Fixtures for all deployment tests: packages for this machine, and an embedded AWS that expands SAM templates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.environment import OVERRIDE, tool_python
from cli.embedded.ministack import EmbeddedAws, embedded_aws
from infra import build
from tests.deploy.stack import Stack, deploy


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of `make build`, with only the packages for this machine."""
    dist = tmp_path_factory.mktemp("dist")
    for package in build.PACKAGES:
        build.build(package, "host", dist / "host" / package)
    (dist / ".built").touch()
    return dist


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    """Replaces the fixture of `tests/conftest.py` with an embedded AWS that can expand SAM templates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OVERRIDE, str(tool_python(Path(__file__).with_name("ministack.txt"))))
        with embedded_aws() as running:
            yield running


@pytest.fixture(scope="session")
def stack(aws: EmbeddedAws, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return deploy(aws, packages, tmp_path_factory.mktemp("sam"))
