"""An answer that is sent while it is written.

Until its first block is ready, an answer can still become an error response. After that, a failure must never make a
part look like the whole: the answer ends with the error in its endStreamAction if the client checks for one, and
otherwise the transfer breaks.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from core.api.lines import failed_stream_line
from core.api.response import Response, error_response, error_text
from core.errors import DeadlineExceededError, SharingError
from core.runtime.compression import Encoder
from core.runtime.deadline import StoppedError, start_work
from core.runtime.handover import Block, Handover
from core.runtime.limit import StreamLimit
from core.sharing.call import ANSWER, COMPLETE, DEADLINE, DISCONNECTED, FAILED, Observed

# The end of an answer that breaks off. No client can parse it, even if a proxy completes the transfer. Some HTTP
# clients, such as urllib3, do not notice that the end of gzip is missing.
UNFINISHED_LINE = b'{"error":"The answer is incomplete'


class TransferBrokenError(Exception):
    """The answer is incomplete, and only a broken transfer shows it to the client. A recipient may see the text."""


@dataclass(frozen=True, slots=True)
class StreamedRequest:
    """What a streamed answer needs to know about its request."""

    request_id: str
    with_body: bool
    """False for HEAD."""
    started: float
    """On the clock of `time.perf_counter`."""
    deadline: float | None
    """On the same clock."""
    observed: Observed
    respond: Callable[[], Response]
    failed: Callable[[BaseException], SharingError]
    """Logs an exception if its cause is on the server's side, and returns the error that the client sees."""
    late: Callable[[], DeadlineExceededError]

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)


class _Writer:
    """Writes the blocks of an answer in a thread of its own, because a call to AWS may hang beyond the deadline."""

    def __init__(self, request: StreamedRequest, limit: StreamLimit) -> None:
        self.handover = Handover()
        self.response = Response(500)
        self.error: SharingError | None = None
        self._request = request
        self._limit = limit

    def start(self, seconds: float | None) -> bool:
        """Starts to write. Returns False if there is neither a block nor the end of the answer in time."""
        start_work(self._write, then=self.handover.end)
        return self.handover.wait(seconds)

    def _write(self) -> None:
        try:
            self.response = self._request.respond()
            self._request.observed.stage = ANSWER
            if self._request.with_body:
                for block in self._limit.fitting(self.response):
                    self.handover.put(block)
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - becomes the error of the answer
            if not self.handover.stopped.is_set():
                self.error = self._request.failed(error)
        finally:
            if isinstance(self.response.body, Generator):
                self.response.body.close()  # ends reads in progress


class StreamedAnswer:
    """The status, the headers and an iterator over the encoded blocks of an answer.

    Iteration raises `TransferBrokenError` if the answer is incomplete. Call `close` after it in any case. If the answer
    has not ended by then, the client is gone. Only one thread at a time may use an answer.
    """

    def __init__(
        self, request: StreamedRequest, encoder: Encoder, on_end: Callable[[int, SharingError | None], None]
    ) -> None:
        """Waits until the status of the answer is certain. Calls `on_end` once, with the status and the error."""
        self._request = request
        self._encoder = encoder
        self._on_end = on_end
        self._limit = StreamLimit(encoder, request.observed)
        self._writer = _Writer(request, self._limit)
        self._open = True
        in_time = self._writer.start(request.seconds_left())
        self._early_error = self._writer.error if in_time else request.late()
        if self._early_error is not None:
            self._writer.handover.stop()
            response = error_response(self._early_error, request_id=request.request_id)
            blocks: Iterator[Block] = (Block(lines, 0.0) for lines in response.body)
        else:
            response, blocks = self._writer.response, self._written()
        has_body = request.with_body and not (self._early_error is None and self._writer.handover.empty)
        self.status = response.status
        self.headers = response.headers | (encoder.headers if has_body else {})
        self._ends_with_action = response.ends_with_action
        self._encoded = self._encode(blocks if has_body else iter(()))

    def __iter__(self) -> Iterator[bytes]:
        observed = self._request.observed
        for encoded in self._encoded:
            if encoded:
                if observed.first_byte_seconds is None:
                    observed.first_byte_seconds = time.perf_counter() - self._request.started
                yield encoded

    def close(self) -> None:
        if self._open:
            late = self._request.seconds_left() == 0
            self._end(DEADLINE if late else DISCONNECTED, self._request.late() if late else None)

    def _written(self) -> Iterator[Block]:
        """Yields the blocks that the other thread writes. Raises the error that ends them early."""
        handover = self._writer.handover
        while True:
            seconds = self._request.seconds_left()
            if seconds == 0 or not handover.wait(seconds):
                raise self._request.late()
            block = handover.take()
            if block is None:
                break
            yield block
        if self._writer.error is not None:
            raise self._writer.error

    def _encode(self, blocks: Iterator[Block]) -> Iterator[bytes]:
        try:
            for block in blocks:
                self._limit.check(block)
                yield self._encoder.encode(block.lines)
                self._limit.watch(block)
        except SharingError as error:
            yield from self._fail(error)
        except Exception as error:  # noqa: BLE001
            yield from self._fail(self._request.failed(error))
        else:
            yield self._encoder.finish()
            self._end(COMPLETE, self._early_error)

    def _fail(self, error: SharingError) -> Iterator[bytes]:
        text, encoder = error_text(error, self._request.request_id), self._encoder
        if self._ends_with_action:
            yield encoder.encode(failed_stream_line(text, error.status)) + encoder.finish()
        else:
            yield encoder.encode(UNFINISHED_LINE) + encoder.flush()
        self._end(DEADLINE if isinstance(error, DeadlineExceededError) else FAILED, error)
        if not self._ends_with_action:
            raise TransferBrokenError(text)

    def _end(self, ended: str, error: SharingError | None) -> None:
        self._open = False
        self._writer.handover.stop()
        observed = self._request.observed
        observed.ended, observed.bytes_sent = ended, self._encoder.sent_bytes
        self._on_end(self.status, error)
