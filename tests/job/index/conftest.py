import pytest

from cli.embedded.ministack import EmbeddedAws
from core.index.write import packing
from tests.job.index.builder import CONTENT_BYTES
from tests.job.index.embedded import EmbeddedIndex


@pytest.fixture
def env(aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> EmbeddedIndex:
    """A table whose index has about ten chunks."""
    monkeypatch.setattr(packing, "CONTENT_BYTES", CONTENT_BYTES)
    return EmbeddedIndex(aws)
