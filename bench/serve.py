"""Measures `sluice serve` with one and with eight clients: requests per second, p50, p99, and AWS requests per call.

The tables are in the embedded AWS, a Python process that shares the machine with the server and the clients. Its CPU
time per request is shown next to that of the server. The figures of the reference server are constants, measured on a
similar machine with the same kind of emulator. `make bench-serve` takes about two minutes.
"""

import os
from dataclasses import dataclass

from bench.lab.aws import SCHEMA, SHARE, TOKEN_VARIABLE, Lab, running_lab
from bench.lab.fresh import Figures, fresh
from bench.lab.proxy import counting_proxy
from bench.lab.server import Server, cpu_seconds, running_server
from bench.report import Result, write
from cli.embedded.setup import DATA_BUCKET, owner_environment

TABLE, FILES = "1k", 1000
CLIENTS = (1, 8)
SECONDS = 6.0
WARM_UP_SECONDS = 1.0
# Longer than the catalog cache time (5 s).
COUNTED_SECONDS = 6.0
TARGET_RATIO = 3


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    path: str
    method: str = "GET"
    body: str = ""
    reference_ms: float | None = None
    """Latency of a warm reference server with one client."""
    reference_per_second: float | None = None
    """Best request rate of the reference server with eight clients."""


TABLE_PATH = f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{TABLE}"
ROUTES = (
    Route("shares", "/shares"),
    Route("version", f"{TABLE_PATH}/version", reference_ms=130, reference_per_second=24),
    Route("metadata", f"{TABLE_PATH}/metadata", reference_ms=140),
    Route("query of 1k files", f"{TABLE_PATH}/query", "POST", "{}", reference_ms=680),
)


def call(server: Server, route: Route, clients: int, seconds: float) -> Figures:
    arguments = (server.endpoint + route.path, route.method, route.body, str(clients), str(seconds))
    return fresh("bench.lab.load:load", *arguments, environment=os.environ | {TOKEN_VARIABLE: server.token})


def speed(lab: Lab, server: Server, route: Route, clients: int) -> list[Result]:
    call(server, route, clients, WARM_UP_SECONDS)
    assert lab.aws.process
    pids = {"server": server.pid, "emulator": lab.aws.process.pid}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    figures = call(server, route, clients, SECONDS)
    used = {name: (cpu_seconds(pid) - before[name]) * 1000 / figures["requests"] for name, pid in pids.items()}
    label = f"{route.name}, {_clients(clients)}"
    results = [
        Result(label, round(figures["per_second"], 1), "requests/s"),
        Result(f"{label}, p50", round(figures["p50"], 2), "ms"),
        Result(f"{label}, p99", round(figures["p99"], 2), "ms"),
        *(Result(f"{label}, CPU of the {name}", round(used[name], 2), "ms/request") for name in used),
    ]
    if clients == 1 and route.reference_ms:
        ratio = round(route.reference_ms / figures["p50"], 1)
        results.append(Result.at_least(f"{label}, the reference server takes", ratio, "x as long", TARGET_RATIO))
    if clients > 1 and route.reference_per_second:
        ratio = round(figures["per_second"] / route.reference_per_second, 1)
        results.append(Result.at_least(f"{label}, of the reference server's requests/s", ratio, "x", TARGET_RATIO))
    return results


def aws_requests(lab: Lab) -> list[Result]:
    """Count AWS requests per warm call, on average. The catalog is read once every five seconds."""
    results = []
    with counting_proxy(lab.aws.port) as proxy:
        environment = lab.environment | owner_environment(lab.aws) | {"AWS_ENDPOINT_URL": proxy.url}
        with running_server(environment) as server:
            for route in ROUTES:
                call(server, route, 1, WARM_UP_SECONDS)
                proxy.requests.clear()
                calls = call(server, route, 1, COUNTED_SECONDS)["requests"]
                for service in ("s3", "dynamodb"):
                    per_call = round(proxy.requests[service] / calls, 3)
                    results.append(Result(f"{route.name}, requests to {service}", per_call, "per call"))
    return results


def emulator_alone(lab: Lab) -> list[Result]:
    """Time the one request that a warm call sends to S3, sent by the same clients."""
    arguments = {"Bucket": DATA_BUCKET, "Prefix": f"{TABLE}/_delta_log/"}
    url = lab.s3.generate_presigned_url("list_objects_v2", Params=arguments)
    results = []
    for clients in CLIENTS:
        figures = fresh("bench.lab.load:load", url, "GET", "", str(clients), str(WARM_UP_SECONDS))
        label = f"the emulator's LIST alone, {_clients(clients)}"
        results.append(Result(label, round(figures["per_second"], 1), "requests/s"))
        results.append(Result(f"{label}, p50", round(figures["p50"], 2), "ms"))
    return results


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"


def main() -> None:
    with running_lab() as lab:
        lab.share_table(TABLE, FILES)
        results = aws_requests(lab) + emulator_alone(lab)
        with running_server(lab.environment | owner_environment(lab.aws)) as server:
            for route in ROUTES:
                for clients in CLIENTS:
                    results += speed(lab, server, route, clients)
    write("serve", results)


if __name__ == "__main__":
    main()
