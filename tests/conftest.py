"""What every test may ask for: the embedded AWS (one per worker) and the golden tables."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.ministack import EmbeddedAws, embedded_aws

GOLDEN_TABLES = Path(os.environ.get("SLUICE_GOLDEN_TABLES") or Path(__file__).parents[2] / "shared" / "golden-tables")

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running


@pytest.fixture(scope="session")
def golden_tables() -> Path:
    if not GOLDEN_TABLES.is_dir():
        pytest.skip("the golden tables are not here (SLUICE_GOLDEN_TABLES): they are no part of this repository")
    return GOLDEN_TABLES
