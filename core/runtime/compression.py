"""The encodings of a streamed answer: plain, or gzip with a compressor that suits the link.

While the link is fast, ISA-L compresses many times as fast as zlib and almost as well. Lambda throttles a stream after
its first megabytes. From then on the processor waits for the link, and zlib makes the answer smaller. Both compressors
write to one deflate stream, because not every client reads a second gzip member.
"""

import zlib
from typing import Protocol

# A level of ISA-L. A line of a listing takes 2 µs, less than a tenth of the time of zlib.
FAST = 2
# A level of zlib. Higher levels save less than 1%.
STRONG = 6
RAW_DEFLATE = -15
# No name, no time, unknown operating system.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self, mode: int, /) -> bytes: ...


class Encoder(Protocol):
    headers: dict[str, str]
    """The headers of a response that has a body."""
    sent_bytes: int
    """Number of bytes returned so far."""
    final_phase: bool
    """Whether the rest of the answer is encoded in the same way."""

    def encode(self, block: bytes) -> bytes: ...

    def flush(self) -> bytes:
        """Returns what a client needs to decode all blocks so far."""

    def finish(self) -> bytes:
        """Returns the last bytes. Without them, a client sees that the answer is incomplete."""

    def measure(self, lines: bytes) -> int:
        """Returns the number of bytes that lines take in the final phase."""

    def at_most(self, block: bytes) -> float:
        """Returns about the most bytes that a block takes, without encoding it."""


class PlainEncoder:
    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.sent_bytes = 0
        self.final_phase = True

    def encode(self, block: bytes) -> bytes:
        self.sent_bytes += len(block)
        return block

    def flush(self) -> bytes:
        return b""

    def finish(self) -> bytes:
        return b""

    def measure(self, lines: bytes) -> int:
        return len(lines)

    def at_most(self, block: bytes) -> float:
        return len(block)


def strong_compressor(window_bits: int) -> Compressor:
    """`Z_FILTERED` leaves out short matches, which saves 5% of a listing: signatures and ids are random digits."""
    return zlib.compressobj(STRONG, zlib.DEFLATED, window_bits, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)


class GzipEncoder:
    """Writes one gzip member. Switches to the strong compressor once `unthrottled_bytes` have been returned."""

    def __init__(self, unthrottled_bytes: int | None) -> None:
        from isal import isal_zlib  # Imported on demand to keep cold starts short. Plain answers do not need it.

        self.headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        self._crc32 = isal_zlib.crc32
        self._fast = isal_zlib.compressobj
        self._compressor = self._fast_compressor()
        self._unthrottled_bytes = unthrottled_bytes
        self._crc = self._plain_bytes = self.sent_bytes = 0
        self.final_phase = unthrottled_bytes is None

    def _fast_compressor(self) -> Compressor:
        return self._fast(FAST, zlib.DEFLATED, RAW_DEFLATE)

    def _final_compressor(self) -> Compressor:
        if self._unthrottled_bytes is None:
            return self._fast_compressor()
        return strong_compressor(RAW_DEFLATE)

    def encode(self, block: bytes) -> bytes:
        encoded = b"" if self.sent_bytes else GZIP_HEADER
        if not self.final_phase and self.sent_bytes >= (self._unthrottled_bytes or 0):
            # A flush ends at a byte, so another compressor can continue there.
            encoded += self._compressor.flush(zlib.Z_FULL_FLUSH)
            self._compressor, self.final_phase = self._final_compressor(), True
        encoded += self._compressor.compress(block)
        self._crc = self._crc32(block, self._crc)
        self._plain_bytes += len(block)
        self.sent_bytes += len(encoded)
        return encoded

    def flush(self) -> bytes:
        flushed = self._compressor.flush(zlib.Z_SYNC_FLUSH)
        self.sent_bytes += len(flushed)
        return flushed

    def finish(self) -> bytes:
        if not self.sent_bytes:
            return b""
        size = self._plain_bytes % 2**32
        last = self._compressor.flush(zlib.Z_FINISH) + self._crc.to_bytes(4, "little") + size.to_bytes(4, "little")
        self.sent_bytes += len(last)
        return last

    def measure(self, lines: bytes) -> int:
        compressor = self._final_compressor()
        return len(compressor.compress(lines)) + len(compressor.flush(zlib.Z_FINISH))

    def at_most(self, block: bytes) -> float:
        """A block may compress half as well as those before it."""
        return 2 * len(block) * self.sent_bytes / max(self._plain_bytes, 1)
