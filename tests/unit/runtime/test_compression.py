"""Gzip streams that switch between a fast and a strong compressor: every decoder reads them, and sees a missing end."""

import gzip
import io
import random
import zlib
from collections.abc import Callable, Iterable
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from core.runtime.compression import SLOW_LINK, WINDOW_BYTES, GzipEncoder
from tests.examples import examples

LINE = (
    b'{"file":{"url":"https://bucket.s3.amazonaws.com/%064x?X-Amz-Signature=%064x","stats":"{\\"numRecords\\":5}"}}\n'
)


def listing(num_lines: int, seed: int = 1) -> bytes:
    noise = random.Random(seed)
    return b"".join(LINE % (noise.getrandbits(256), noise.getrandbits(256)) for _ in range(num_lines))


def by_urllib3(content: bytes) -> bytes:
    return HTTPResponse(io.BytesIO(content), {"content-encoding": "gzip"}, preload_content=False).read()


def by_urllib3_in_pieces(content: bytes) -> bytes:
    response = HTTPResponse(io.BytesIO(content), {"content-encoding": "gzip"}, preload_content=False)
    return b"".join(response.stream(777))


def by_zlib(content: bytes) -> bytes:
    decoder = zlib.decompressobj(31)
    plain = decoder.decompress(content)
    assert decoder.eof, "the end is missing"
    assert not decoder.unused_data, "there is a second gzip member, which Java's GZIPInputStream may not read"
    return plain


DECODERS = [gzip.decompress, by_zlib, by_urllib3, by_urllib3_in_pieces]


SLOW, FAST = 1.0, 0.0  # seconds that the link takes for a block
# Each block is long enough to judge the link.
WINDOW = 1


def encoded(blocks: list[bytes], waits: Iterable[float] = (), *, strong_from: int | None = None) -> bytes:
    encoder = GzipEncoder(WINDOW)
    content = b""
    for number, (block, seconds) in enumerate(zip(blocks, chain(waits, repeat(FAST)), strict=False)):
        if number == strong_from:
            encoder.strengthen()
        content += encoder.encode(block)
        encoder.waited(seconds)
    content += encoder.finish()
    assert len(content) == encoder.sent_bytes
    return content


WAITS = st.lists(st.sampled_from([SLOW, FAST]), max_size=8)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(0, 600),
    st.lists(st.integers(1, 200_000), max_size=8),
    WAITS,
    st.one_of(st.none(), st.integers(0, 8)),
    st.sampled_from(DECODERS),
)
def test_every_decoder_reads_a_stream_wherever_the_compressor_switches(
    num_lines: int, cuts: list[int], waits: list[float], strong_from: int | None, decode: Callable[[bytes], bytes]
) -> None:
    content = listing(num_lines)
    ends = sorted({min(cut, len(content)) for cut in cuts} | {len(content)})
    blocks = [content[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    stream = encoded(list(filter(None, blocks)), waits, strong_from=strong_from)
    assert (decode(stream) if stream else b"") == content


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=70_000), max_size=5), WAITS)
def test_any_content_survives(blocks: list[bytes], waits: list[float]) -> None:
    stream = encoded(blocks, waits)
    assert (by_zlib(stream) if stream else b"") == b"".join(blocks)


@pytest.mark.parametrize("seconds", [FAST, SLOW])
def test_a_stream_without_its_end_is_incomplete(seconds: float) -> None:
    encoder = GzipEncoder(WINDOW)
    part = b""
    for seed in range(4):
        part += encoder.encode(listing(1000, seed))
        encoder.waited(seconds)
    decoder = zlib.decompressobj(31)
    decoder.decompress(part)
    assert not decoder.eof
    with pytest.raises(EOFError):
        gzip.decompress(part)


def test_a_slow_link_gets_fewer_bytes() -> None:
    blocks = [listing(1000, seed) for seed in range(10)]
    fast, half, slow = (len(encoded(blocks, [SLOW] * count)) for count in (0, 5, 10))
    assert slow < half < fast


def test_the_compressor_follows_the_link_in_both_directions() -> None:
    encoder = GzipEncoder(WINDOW)
    phases = []
    for seconds in (FAST, FAST, SLOW, SLOW, FAST, FAST):
        encoder.encode(listing(100))
        encoder.waited(seconds)
        phases.append(encoder.phase)
    assert phases == [0, 0, 0, 1, 1, 2], "one block later, because a block shows how fast the link is"


def test_the_link_is_judged_by_megabytes_and_not_by_a_single_block() -> None:
    encoder = GzipEncoder()
    block = listing(1000)
    for _ in range(2 * WINDOW_BYTES // len(block) + 2):
        encoder.encode(block)
        encoder.waited(FAST)
    encoder.waited(SLOW_LINK * WINDOW_BYTES / 2)
    encoder.encode(block)
    assert encoder.phase == 0


def test_an_answer_that_must_be_small_stays_so_on_a_fast_link() -> None:
    blocks = [listing(1000, seed) for seed in range(6)]
    assert len(encoded(blocks, strong_from=0)) < len(encoded(blocks, strong_from=3)) < len(encoded(blocks))
    encoder = GzipEncoder(WINDOW)
    assert encoder.strengthen()
    assert not encoder.strengthen(), "it is as small as it can be"


@pytest.mark.parametrize("strong", [False, True])
def test_lines_are_measured_as_they_are_compressed(*, strong: bool) -> None:
    blocks = [listing(2000, seed) for seed in range(5)]
    measured = GzipEncoder().measure(blocks[0], strong=strong)
    assert measured * 5 == pytest.approx(len(encoded(blocks, strong_from=0 if strong else None)), rel=0.02)
