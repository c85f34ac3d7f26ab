"""The encodings of a streamed answer: plain, or gzip with a compressor that suits the link.

While the link is fast, ISA-L compresses many times as fast as zlib and almost as well. AWS throttles a stream after its
first megabytes. From then on the processor waits for the link, and zlib makes the answer smaller at no cost. Both
compressors write to one deflate stream, because not every client reads a second gzip member.
"""

import zlib
from typing import Protocol

# A level of ISA-L. A line of a listing takes 2 µs, a tenth of the time of zlib.
FAST = 2
# A level of zlib. Higher levels save less than 1%.
STRONG = 6
RAW_DEFLATE = -15
# No name, no time, unknown operating system.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# Seconds per byte of lines. The strong compressor takes about 10 ns per byte. It pays if the link takes longer than
# that, with a margin, and it costs time if nobody waits for the link any more.
SLOW_LINK = 20e-9
FAST_LINK = 1e-9
WINDOW_BYTES = 4 * 1024 * 1024


class Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self, mode: int, /) -> bytes: ...


class Encoder(Protocol):
    headers: dict[str, str]
    """The headers of a response that has a body."""
    sent_bytes: int
    """Number of bytes returned so far."""
    projected_part: float
    """Part of a limit that a projection from the first lines may use up. Later lines may be longer."""
    phase: int
    """Changes whenever the encoding changes, so that sizes of different phases are not compared."""

    def encode(self, block: bytes) -> bytes: ...

    def flush(self) -> bytes:
        """Returns what a client needs to decode all blocks so far."""

    def finish(self) -> bytes:
        """Returns the last bytes. Without them, a client sees that the answer is incomplete."""

    def waited(self, seconds: float) -> None:
        """Reports how long the link took for what `encode` returned last."""

    def measure(self, lines: bytes, *, strong: bool) -> int:
        """Returns the number of bytes that lines take, with or without `strengthen`."""

    def strengthen(self) -> bool:
        """Makes the rest of the answer as small as possible. Returns False if it is already."""

    def at_most(self, block: bytes) -> float:
        """Returns about the most bytes that a block takes, without encoding it."""


class PlainEncoder:
    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.projected_part = 0.98
        self.sent_bytes = self.phase = 0

    def encode(self, block: bytes) -> bytes:
        self.sent_bytes += len(block)
        return block

    def flush(self) -> bytes:
        return b""

    def finish(self) -> bytes:
        return b""

    def waited(self, seconds: float) -> None:
        """Ignores the link."""

    def measure(self, lines: bytes, *, strong: bool) -> int:  # noqa: ARG002
        return len(lines)

    def strengthen(self) -> bool:
        return False

    def at_most(self, block: bytes) -> float:
        return len(block)


def strong_compressor(window_bits: int) -> Compressor:
    """`Z_FILTERED` leaves out short matches, which saves 5% of a listing: signatures and ids are random digits."""
    return zlib.compressobj(STRONG, zlib.DEFLATED, window_bits, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)


class GzipEncoder:
    """Writes one gzip member. Compresses strongly while the link is slow, or if it must."""

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        """`window_bytes` are the bytes of lines after which the speed of the link is judged."""
        from isal import isal_zlib  # Imported on demand to keep cold starts short. Plain answers do not need it.

        self.headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        self.projected_part = 0.9  # lines of equal length compress differently
        self._crc32 = isal_zlib.crc32
        self._fast = isal_zlib.compressobj
        self._crc = self._plain_bytes = self.sent_bytes = self.phase = 0
        self._is_strong = self._link_is_slow = self._must_be_strong = False
        self._compressor = self._new_compressor(strong=False)
        self._judged_after = window_bytes
        self._window_bytes, self._window_seconds = 0, 0.0

    def _new_compressor(self, *, strong: bool) -> Compressor:
        return strong_compressor(RAW_DEFLATE) if strong else self._fast(FAST, zlib.DEFLATED, RAW_DEFLATE)

    def encode(self, block: bytes) -> bytes:
        encoded = b"" if self._plain_bytes else GZIP_HEADER
        wanted = self._must_be_strong or self._link_is_slow
        if wanted != self._is_strong:
            # A flush ends at a byte, so another compressor can continue there.
            encoded += self._compressor.flush(zlib.Z_FULL_FLUSH) if self._plain_bytes else b""
            self._compressor, self._is_strong = self._new_compressor(strong=wanted), wanted
            self.phase += 1
        encoded += self._compressor.compress(block)
        self._crc = self._crc32(block, self._crc)
        self._plain_bytes += len(block)
        self._window_bytes += len(block)
        self.sent_bytes += len(encoded)
        return encoded

    def flush(self) -> bytes:
        flushed = self._compressor.flush(zlib.Z_SYNC_FLUSH)
        self.sent_bytes += len(flushed)
        return flushed

    def finish(self) -> bytes:
        if not self._plain_bytes:
            return b""
        size = self._plain_bytes % 2**32
        last = self._compressor.flush(zlib.Z_FINISH) + self._crc.to_bytes(4, "little") + size.to_bytes(4, "little")
        self.sent_bytes += len(last)
        return last

    def waited(self, seconds: float) -> None:
        self._window_seconds += seconds
        if self._window_bytes >= self._judged_after:
            slow = FAST_LINK if self._is_strong else SLOW_LINK
            self._link_is_slow = self._window_seconds > slow * self._window_bytes
            self._window_bytes, self._window_seconds = 0, 0.0

    def measure(self, lines: bytes, *, strong: bool) -> int:
        compressor = self._new_compressor(strong=strong)
        return len(compressor.compress(lines)) + len(compressor.flush(zlib.Z_FINISH))

    def strengthen(self) -> bool:
        if self._must_be_strong:
            return False
        self._must_be_strong = True
        return True

    def at_most(self, block: bytes) -> float:
        """A block may compress half as well as those before it."""
        return 2 * len(block) * self.sent_bytes / max(self._plain_bytes, 1)
