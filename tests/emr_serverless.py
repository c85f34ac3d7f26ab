"""A fake EMR Serverless API over HTTP that starts, lists and returns job runs. No emulator has this API."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class EmrServerless:
    """Runs stay active until a test calls `end`. If `refuses` is set, `start` fails with that status and error code."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: dict[str, dict[str, Any]] = {}
        self.refuses: tuple[int, str] | None = None
        self._changed = threading.Condition()

    def arguments(self) -> list[list[str]]:
        """Return the entry point arguments of each run."""
        return [run["jobDriver"]["sparkSubmit"]["entryPointArguments"] for run in self.runs.values()]

    def wait_for_runs(self, number: int, seconds: float) -> bool:
        """Return whether at least `number` runs were started within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.runs) >= number, seconds)

    def end(self, state: str = "SUCCESS") -> None:
        for run in self.runs.values():
            run["state"] = state

    def start(self, application_id: str, request: dict[str, Any]) -> tuple[int, Any]:
        if self.refuses:
            status, code = self.refuses
            return status, {"message": code, "__type": code}
        token = request["clientToken"]
        repeated = [run for run in self.runs.values() if run["clientToken"] == token]
        run = repeated[0] if repeated else {**request, "jobRunId": f"{len(self.runs):016x}", "state": "SUBMITTED"}
        with self._changed:
            self.runs[run["jobRunId"]] = run
            self._changed.notify_all()
        return 200, {"applicationId": application_id, "jobRunId": run["jobRunId"], "arn": "arn"}

    def list(self, states: list[str]) -> tuple[int, Any]:
        summaries = [{"id": run_id, "state": run["state"]} for run_id, run in self.runs.items()]
        return 200, {"jobRuns": [summary for summary in summaries if summary["state"] in states]}


@contextmanager
def emr_serverless() -> Iterator[EmrServerless]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match urlsplit(self.path).path.strip("/").split("/"):
                case ["applications", _, "jobruns"]:
                    self._answer(*emr.list(parse_qs(urlsplit(self.path).query)["states"]))
                case ["applications", _, "jobruns", run_id]:
                    self._answer(200, {"jobRun": emr.runs[run_id]})

        def do_POST(self) -> None:
            application_id = self.path.strip("/").split("/")[1]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(*emr.start(application_id, json.loads(body)))

        def _answer(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            if "__type" in document:
                self.send_header("x-amzn-ErrorType", document["__type"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        emr = EmrServerless(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield emr
        finally:
            server.shutdown()
