"""Fixtures for all tests: the embedded AWS (one per worker) and the golden tables."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.ministack import EmbeddedAws, embedded_aws
from tests.examples import register_profiles

GOLDEN_TABLES = Path(os.environ.get("SLUICE_GOLDEN_TABLES") or Path(__file__).parents[2] / "shared" / "golden-tables")

register_profiles()

# A shell lets background processes ignore Ctrl-C. The processes that tests start would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running


@pytest.fixture(scope="session")
def golden_tables() -> Path:
    if not GOLDEN_TABLES.is_dir():
        pytest.skip("The golden tables are not part of this repository. Set SLUICE_GOLDEN_TABLES to their folder.")
    return GOLDEN_TABLES
