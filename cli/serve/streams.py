"""Sends the answer of a function in blocks, as the function writes it, over chunked HTTP.

One block at a time: the next one is written when the client has taken the last, so a slow client costs no memory and no
thread. An answer that breaks off has no final chunk, which every client reports as an error.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Protocol, TypeAlias

from cli.serve.gateway import HttpRequest, SentStream
from core.runtime.streamed import TransferBrokenError

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

COMPLETE, BROKEN, CLIENT_LEFT, STOPPED = "complete", "broken off", "client left", "server stopped"

logger = logging.getLogger(__name__)


class Stream(Protocol):
    """The answer of a function that streams (`core.runtime.streamed.StreamedAnswer`)."""

    status: int
    headers: dict[str, str]

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class StreamingFunction(Protocol):
    def stream(self, event: Mapping[str, Any], context: object) -> Stream: ...


def response_start(status: int, headers: Iterable[tuple[str, str]], request: HttpRequest) -> dict[str, Any]:
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    encoded.append((b"x-amzn-requestid", request.request_id.encode()))
    return {"type": "http.response.start", "status": status, "headers": encoded}


async def send_stream(
    stream: Stream, request: HttpRequest, receive: Receive, send: Send, threads: Executor
) -> SentStream:
    """Sends an answer. Unless it is complete, returns without its end, and the server then closes the connection."""
    await send(response_start(stream.status, stream.headers.items(), request))
    sending = _Sending(stream, threads)
    client_left = asyncio.ensure_future(_disconnect(receive))
    try:
        while block := await sending.next_block():
            await send({"type": "http.response.body", "body": block, "more_body": True})
            if client_left.done():
                return sending.ended(CLIENT_LEFT)
        await send({"type": "http.response.body", "body": b""})
        return sending.ended(COMPLETE)
    except TransferBrokenError:
        return sending.ended(BROKEN)
    except asyncio.CancelledError:
        return sending.ended(STOPPED)
    except Exception:
        logger.exception("The function failed (request id: %s).", request.request_id)
        return sending.ended(BROKEN)
    finally:
        client_left.cancel()
        sending.close()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Sending:
    def __init__(self, stream: Stream, threads: Executor) -> None:
        self._stream = stream
        self._threads = threads
        self._blocks = iter(stream)
        self._next: Future[bytes | None] | None = None
        self._bytes = 0

    async def next_block(self) -> bytes | None:
        self._next = self._threads.submit(next, self._blocks, None)
        block = await asyncio.wrap_future(self._next)
        self._bytes += len(block or b"")
        return block

    def ended(self, how: str) -> SentStream:
        return SentStream(self._stream.status, self._bytes, how)

    def close(self) -> None:
        """Closes the answer, as soon as the thread that writes its next block is done with it."""
        if self._next is None:
            self._stream.close()
        else:
            self._next.add_done_callback(lambda _: self._stream.close())
