"""The HTTP server: uvicorn in a thread of its own, on a socket that is bound before all else is started."""

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator

import uvicorn

from cli.errors import CommandError
from cli.serve.app import Front

START_SECONDS = 10.0
# Longer than common clients and load balancers keep a connection, so that it is they who close it.
KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 5
BACKLOG = 512


def bind(host: str, port: int) -> socket.socket:
    """A socket that owns the port. Port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where TCP is named: with it, an answer takes 40 ms longer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # SO_REUSEADDR lets two idle sockets have one port: only listening makes it ours.
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise CommandError(_reason(error, host, port)) from error
    return bound


def _reason(error: Exception, host: str, port: int) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is already in use; choose another with --port."
        case errno.EACCES:
            return f"Port {port} on {host} is not open to this user; choose one above 1023 with --port."
        case _:
            return f"The server cannot listen on {host}, port {port}: {error}."


@contextlib.contextmanager
def serving(front: Front, bound: socket.socket) -> Iterator[None]:
    """Accepts requests inside the block. At its end, requests under way have a few seconds to finish."""
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
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="http", daemon=True)
    thread.start()
    try:
        if not server.accepts.wait(START_SECONDS):
            raise CommandError("The HTTP server did not start.")
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
