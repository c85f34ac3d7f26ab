"""What the tests of packages, runtime and deployment share: packages for this machine, and an AWS that knows SAM."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.environment import OVERRIDE, tool_python
from cli.embedded.ministack import EmbeddedAws, embedded_aws
from infra import build


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `dist` of `make build`, with this machine's packages only."""
    dist = tmp_path_factory.mktemp("dist")
    for package in build.PACKAGES:
        build.build(package, "host", dist / "host" / package)
    (dist / ".built").touch()
    return dist


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    """Takes the place of the others' AWS: this one can expand a SAM template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OVERRIDE, str(tool_python(Path(__file__).with_name("ministack.txt"))))
        with embedded_aws() as running:
            yield running
