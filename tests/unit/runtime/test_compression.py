"""Gzip streams that switch from a fast to a strong compressor: every decoder reads them, and sees a missing end."""

import gzip
import io
import random
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from core.runtime.compression import GzipEncoder
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


def encoded(blocks: list[bytes], unthrottled_bytes: int | None) -> bytes:
    encoder = GzipEncoder(unthrottled_bytes)
    content = b"".join([*map(encoder.encode, blocks), encoder.finish()])
    assert len(content) == encoder.sent_bytes
    return content


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(0, 600),
    st.lists(st.integers(1, 200_000), max_size=8),
    st.one_of(st.none(), st.integers(0, 60_000)),
    st.sampled_from(DECODERS),
)
def test_every_decoder_reads_a_stream_wherever_the_compressor_switches(
    num_lines: int, cuts: list[int], unthrottled_bytes: int | None, decode: Callable[[bytes], bytes]
) -> None:
    content = listing(num_lines)
    ends = sorted({min(cut, len(content)) for cut in cuts} | {len(content)})
    blocks = [content[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    stream = encoded(list(filter(None, blocks)), unthrottled_bytes)
    assert (decode(stream) if stream else b"") == content


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=70_000), max_size=5), st.one_of(st.none(), st.integers(0, 1000)))
def test_any_content_survives(blocks: list[bytes], unthrottled_bytes: int | None) -> None:
    stream = encoded(blocks, unthrottled_bytes)
    assert (by_zlib(stream) if stream else b"") == b"".join(blocks)


@pytest.mark.parametrize("unthrottled_bytes", [None, 0, 100_000])
def test_a_stream_without_its_end_is_incomplete(unthrottled_bytes: int | None) -> None:
    encoder = GzipEncoder(unthrottled_bytes)
    part = b"".join(encoder.encode(listing(1000, seed)) for seed in range(4))
    assert not zlib.decompressobj(31).eof
    decoder = zlib.decompressobj(31)
    decoder.decompress(part)
    assert not decoder.eof
    with pytest.raises(EOFError):
        gzip.decompress(part)


def test_the_strong_compressor_follows_once_the_unthrottled_bytes_are_sent() -> None:
    blocks = [listing(1000, seed) for seed in range(10)]
    fast, switched, strong = (len(encoded(blocks, bytes_)) for bytes_ in (None, 300_000, 0))
    assert strong < switched < fast
    encoder = GzipEncoder(300_000)
    phases = []
    for block in blocks:
        before = encoder.sent_bytes
        encoder.encode(block)
        phases.append((before >= 300_000, encoder.final_phase))
    assert all(reached == final for reached, final in phases)
    assert {final for _, final in phases} == {False, True}


@pytest.mark.parametrize("unthrottled_bytes", [None, 0])
def test_lines_are_measured_as_the_rest_of_an_answer_is_compressed(unthrottled_bytes: int | None) -> None:
    blocks = [listing(2000, seed) for seed in range(5)]
    measured = GzipEncoder(unthrottled_bytes).measure(blocks[0])
    assert measured * 5 == pytest.approx(len(encoded(blocks, unthrottled_bytes)), rel=0.02)
