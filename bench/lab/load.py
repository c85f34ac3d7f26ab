"""Load clients that call one route repeatedly, each on its own keep-alive connection.

They run in a separate process and write raw HTTP, because a client library would use more CPU than the server.
"""

import asyncio
import os
import statistics
import time
from urllib.parse import urlsplit

from bench.lab.aws import TOKEN_VARIABLE
from bench.lab.fresh import Figures

MIN_CALLS = 3


def load(url: str, method: str, body: str, clients: str, seconds: str) -> Figures:
    """Return the request rate and the latency percentiles in milliseconds."""
    request = _request(url, method, os.environ.get(TOKEN_VARIABLE), body.encode())
    started = time.perf_counter()
    milliseconds = asyncio.run(_run(url, request, int(clients), started + float(seconds)))
    elapsed = time.perf_counter() - started
    percentiles = statistics.quantiles(milliseconds, n=100)
    return {
        "requests": len(milliseconds),
        "per_second": len(milliseconds) / elapsed,
        "p50": percentiles[49],
        "p99": percentiles[98],
    }


def _request(url: str, method: str, token: str | None, body: bytes) -> bytes:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept-Encoding: gzip, deflate\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


async def _run(url: str, request: bytes, clients: int, until: float) -> list[float]:
    parts = urlsplit(url)
    calls = (_call(parts.hostname or "", parts.port or 80, request, until) for _ in range(clients))
    return [milliseconds for latencies in await asyncio.gather(*calls) for milliseconds in latencies]


async def _call(host: str, port: int, request: bytes, until: float) -> list[float]:
    reader, writer = await asyncio.open_connection(host, port, limit=2**20)
    milliseconds: list[float] = []
    while time.perf_counter() < until or len(milliseconds) < MIN_CALLS:
        started = time.perf_counter()
        writer.write(request)
        status, *headers = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        if b" 200 " not in status:
            raise ConnectionError(status.decode())
        length = next(int(line.split(b":")[1]) for line in headers if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        milliseconds.append((time.perf_counter() - started) * 1000)
    writer.close()
    return milliseconds
