"""Packing fills chunks, never exceeds the item size, and always ends, whatever the sizes of the files."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import Add
from core.index.layout.buckets import hash_of
from core.index.layout.chunk import Chunk
from core.index.layout.items import CONTENT_BYTES
from core.index.layout.rows import rows_of
from core.index.write.packing import MIN_FILL, PackedChunk, TooLargeFileError, indexed_fields, pack_chunks
from tests.examples import examples
from tests.unit.index.indexed_table import file, metadata_of

FIELDS = indexed_fields(metadata_of(id="long"))
# Packing takes about a second here. The timeout ends a test in which it never finishes.
pytestmark = pytest.mark.timeout(120)


def noise(size: int, seed: int) -> str:
    """A text that takes about `size // 2` bytes in a chunk: random hex digits, which compress to half."""
    return random.Random(seed).randbytes(size // 2).hex()


def adds(sizes: list[int]) -> list[Add]:
    return [file(f"{number:06d}", stats=noise(size, number)) for number, size in enumerate(sizes)]


def chunks_of(files: list[Add], batch: int = 1000, target_bytes: int = CONTENT_BYTES) -> list[PackedChunk]:
    def batches() -> Iterator[object]:
        for begin in range(0, len(files), batch):
            yield rows_of([(add, None) for add in files[begin : begin + batch]])

    chunks = list(pack_chunks(batches(), FIELDS, target_bytes))
    read = [Chunk(chunk.content) for chunk in chunks]
    assert [add for chunk in read for add in chunk.files.adds()] == files
    assert [chunk.files for chunk in chunks] == [chunk.size for chunk in read]
    assert all(len(chunk.content) <= CONTENT_BYTES for chunk in chunks)
    assert [hashed for chunk in chunks for hashed in chunk.hashes] == [hash_of(add.path) for add in files]
    return chunks


@pytest.mark.parametrize("target_bytes", [64_000, 150_000, CONTENT_BYTES])
def test_many_small_files_fill_chunks_of_the_target_size(target_bytes: int) -> None:
    *full, _ = chunks_of(adds([400] * 5000), target_bytes=target_bytes)
    assert len(full) > 1
    assert all(len(chunk.content) >= MIN_FILL * target_bytes for chunk in full)
    assert sum(len(chunk.content) for chunk in full) <= 1.1 * target_bytes * len(full)


@pytest.mark.parametrize("size", [100_000, 300_000, 600_000, 770_000])
def test_files_so_large_that_a_chunk_holds_only_a_few_are_packed(size: int) -> None:
    chunks_of(adds([size] * 6))


def test_a_large_file_among_small_ones_is_packed() -> None:
    chunks_of(adds([600_000 if number % 400 == 200 else 500 for number in range(1200)]))


@settings(deadline=None, max_examples=examples(10))
@given(st.lists(st.sampled_from([50, 5_000, 60_000, 250_000, 500_000, 700_000]), min_size=1, max_size=10))
def test_files_of_any_sizes_are_packed_in_order(sizes: list[int]) -> None:
    chunks_of(adds(sizes), batch=3)
    chunks_of(adds(sizes), batch=3, target_bytes=64_000)


def test_a_file_larger_than_an_item_is_rejected() -> None:
    with pytest.raises(TooLargeFileError):
        chunks_of(adds([50, 900_000, 50]))


def test_a_table_without_files_has_no_chunks() -> None:
    assert list(pack_chunks([], FIELDS, CONTENT_BYTES)) == []
