"""Buckets find the same entries as a dictionary of the same files."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import Totals
from core.index.layout.buckets import (
    ENTRY,
    IN_TAIL,
    Entry,
    bucket_of,
    buckets_for,
    entries_in,
    hash_of,
    pack_bucket,
    pack_entries,
    sealed,
    split,
    totals_of,
    unpack_bucket,
)

HASHES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
ENTRIES = st.builds(
    Entry,
    HASHES,
    st.integers(0, 2**63 - 1) | st.sampled_from([0, 2**63 - 1]),
    st.booleans(),
    st.integers(0, 2**31) | st.just(IN_TAIL),
)
FILES = st.lists(ENTRIES, unique_by=lambda entry: entry.hash, max_size=30)


@settings(deadline=None)
@given(FILES, st.lists(HASHES, unique=True))
def test_a_bucket_finds_its_own_files_and_no_others(files: list[Entry], others: list[int]) -> None:
    by_hash = {entry.hash: entry for entry in files}
    bucket = pack_bucket(files)
    assert sorted(unpack_bucket(bucket)) == sorted(files)
    wanted = [*list(by_hash)[::2], *(other for other in others if other not in by_hash)]
    found = entries_in(bucket, wanted)
    assert sorted(found) == sorted(by_hash[hashed] for hashed in wanted if hashed in by_hash)
    assert totals_of(found) == Totals(
        len(found), sum(entry.size for entry in found), len([entry for entry in found if entry.has_vector])
    )


@settings(deadline=None)
@given(st.lists(HASHES, min_size=1), st.integers(1, 100_000))
def test_every_hash_has_a_bucket_and_buckets_follow_the_order_of_hashes(hashes: list[int], num_buckets: int) -> None:
    buckets = [bucket_of(hashed, num_buckets) for hashed in sorted(hashes)]
    assert all(0 <= bucket < num_buckets for bucket in buckets)
    assert buckets == sorted(buckets)


@settings(deadline=None)
@given(FILES, st.integers(1, 5), st.integers(0, 5), st.integers(1, 5))
def test_entries_are_split_into_their_buckets(files: list[Entry], number: int, first: int, times: int) -> None:
    buckets = range(first, first + number)
    num_buckets = buckets.stop * times
    entries = [entry for entry in files if bucket_of(entry.hash, num_buckets) in buckets]
    packed = pack_entries(*zip(*entries, strict=True)) if entries else b""
    for bucket, content in zip(buckets, split(packed, buckets, num_buckets), strict=True):
        expected = [entry for entry in entries if bucket_of(entry.hash, num_buckets) == bucket]
        assert sealed(content) == pack_bucket(expected)


def test_hashes_spread_evenly_so_an_average_bucket_fits_one_read_unit() -> None:
    number = buckets_for(20_000)
    sizes = [0] * number
    for file in range(20_000):
        sizes[bucket_of(hash_of(f"part-{file:05d}.parquet"), number)] += 1
    assert sum(sizes) / number < 4096 / ENTRY.size
    assert max(sizes) < 2 * sum(sizes) / number


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[])), st.text())
def test_a_deletion_vector_changes_the_hash_of_a_file(path: str, vector: str) -> None:
    assert len({hash_of(path), hash_of((path, vector)), hash_of((path, vector + "@1"))}) == 3


def test_a_hash_is_the_same_in_every_process() -> None:
    assert hash_of("a.parquet") == 0xB853FC0CEC92906B
