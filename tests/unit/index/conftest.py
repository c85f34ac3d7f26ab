from collections.abc import Iterator

import pytest

from core.index.read import store
from core.index.write import packing


@pytest.fixture
def small_chunks() -> Iterator[None]:
    """Chunks of about forty files each, with files as `indexed_table.files` makes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "CONTENT_BYTES", 4500)
        yield


@pytest.fixture
def one_chunk_per_read() -> Iterator[None]:
    """Reads one chunk per request, and one request ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "BYTES_PER_GET", 1)
        patch.setattr(store, "GETS_AHEAD", 1)
        yield
