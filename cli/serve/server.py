"""The HTTP server: uvicorn in its own thread, on a socket that is bound before anything else starts."""

import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Iterator

import uvicorn

from cli.common.errors import CommandError
from cli.serve.app import Front

START_SECONDS = 10.0
# Longer than common clients and load balancers keep an idle connection, so they close it first.
KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 5
BACKLOG = 512


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket on the port. Port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is TCP explicitly. With it, a response takes 40 ms longer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # With SO_REUSEADDR, two sockets can bind one port. Only listening reserves it.
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise CommandError(_reason(error, host, port)) from error
    return bound


def _reason(error: Exception, host: str, port: int) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is already in use. Choose another with --port."
        case errno.EACCES:
            return f"Port {port} on {host} requires root privileges. Choose a port above 1023 with --port."
        case _:
            return f"The server cannot listen on {host}, port {port}: {error}."


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a message of uvicorn says something that the access log does not: a response that was broken off."""
    return "without completing response" not in record.getMessage()


@contextlib.contextmanager
def serving(front: Front, bound: socket.socket) -> Iterator[None]:
    """Accepts requests inside the block. At the end, running requests have a few seconds to finish."""
    server = _Server(
        uvicorn.Config(
            front,
            http="httptools",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="http", daemon=True)
    thread.start()
    try:
        if not server.accepts.wait(START_SECONDS):
            raise CommandError(f"The HTTP server did not start within {START_SECONDS:.0f} s. Run the command again.")
        yield
    finally:
        server.should_exit = True
        thread.join()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepts = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepts.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # Those that are left have a client that does not read what was sent.
        for connection in self.server_state.connections:
            connection.transport.abort()
