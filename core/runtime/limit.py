"""Makes a streamed answer fit into what Lambda can send, or refuses it before its first byte.

The size of a listing is projected from its first lines, as they will be encoded. If it does not fit, the statistics of
all files shrink to the number of records. If that is not enough, the answer is an error with advice. Pages end early
instead.
"""

from collections.abc import Iterator
from itertools import chain

from core.api.response import Response
from core.api.size import AnswerSize
from core.api.statistics import reduced_lines
from core.errors import AnswerTooLargeError
from core.runtime.compression import Encoder
from core.runtime.events import PAGE_END_BYTES, too_large
from core.runtime.handover import Block
from core.sharing.call import Observed

# AWS does not say whether its 200 MB are 200 * 1024 * 1024.
MAX_STREAMED_BYTES = 200_000_000
# Kept free for what a compressor still holds, a last line, the head of the answer and the framing of chunks.
RESERVE_BYTES = 262_144
LIMIT = MAX_STREAMED_BYTES - RESERVE_BYTES
# Lines that the first projection is made from. Only answers that might be too large are held back for so many.
SAMPLE_BYTES = 4_000_000
# How many times an answer must fit by its first block to be sent without a larger sample.
CLEARLY = 4
# Bytes after which a projection from what was sent is reliable. A compressor holds back some 50 kB.
WATCH_BYTES = 20_000_000


class StreamLimit:
    """The limit of one answer. The writing thread calls `fitting`, the sending thread the other methods."""

    def __init__(self, encoder: Encoder, observed: Observed) -> None:
        self._encoder = encoder
        self._observed = observed
        self._size = AnswerSize()
        self._mark: tuple[int, float] | None = None

    def fitting(self, response: Response) -> Iterator[Block]:
        """Returns the blocks of an answer that fits, as far as its first lines tell."""
        if response.room is not None:
            response.room.limit(_PlainMeter())
        blocks, size = filter(None, response.body), response.size
        if size is None or not size.total:
            return (Block(lines, 0.0) for lines in blocks)
        self._size = size
        sample = bytearray()
        for lines in blocks:
            sample += lines
            if len(sample) >= SAMPLE_BYTES or _fits_plain(sample, size, CLEARLY):
                break
        else:
            return iter([Block(bytes(sample), size.written)] if sample else [])
        first = Block(self._reduced_to_fit(bytes(sample), size), size.written)
        return chain([first], (Block(lines, size.written) for lines in blocks))

    def _reduced_to_fit(self, sample: bytes, size: AnswerSize) -> bytes:
        if self._fits(sample, size) or (size.make_exact() and self._fits(sample, size)):
            return sample
        sample = reduced_lines(sample)
        if not self._fits(sample, size):
            raise AnswerTooLargeError(too_large(MAX_STREAMED_BYTES))
        self._reduce(size)
        return sample

    def _fits(self, sample: bytes, size: AnswerSize) -> bool:
        if _fits_plain(sample, size):
            return True
        # The protocol and metaData lines do not repeat.
        head = sample.index(b"\n", sample.index(b"\n") + 1) + 1
        measure = self._encoder.measure
        return measure(sample[:head]) + measure(sample[head:]) * size.total / size.written <= LIMIT

    def _reduce(self, size: AnswerSize) -> None:
        size.reduced = self._observed.stats_reduced = True

    def check(self, block: Block) -> None:
        """Raises an error if this block might not fit. Call before the block is encoded."""
        if self._encoder.sent_bytes + self._encoder.at_most(block.lines) > LIMIT:
            raise AnswerTooLargeError(too_large(MAX_STREAMED_BYTES))

    def watch(self, block: Block) -> None:
        """Reduces the rest if the answer turns out larger than its first lines promised. Call after encoding."""
        size, sent_bytes = self._size, self._encoder.sent_bytes
        if size.reduced or not size.total or not self._encoder.final_phase:
            return
        if self._mark is None:
            self._mark = sent_bytes, block.written
        measured, written = sent_bytes - self._mark[0], block.written - self._mark[1]
        if measured < WATCH_BYTES or written <= 0:
            return
        projected = sent_bytes + measured / written * (size.total - block.written)
        if projected > LIMIT and not size.make_exact():
            self._reduce(size)


def _fits_plain(sample: bytes | bytearray, size: AnswerSize, times: int = 1) -> bool:
    return times * len(sample) * size.total <= LIMIT * size.written


class _PlainMeter:
    """Measures a page before compression, which is enough: a page of that size has as many files as clients ask for."""

    def __init__(self) -> None:
        self._left = LIMIT - PAGE_END_BYTES

    def fits(self, lines: bytes) -> bool:
        return len(lines) <= self._left

    def add(self, lines: bytes) -> None:
        self._left -= len(lines)
