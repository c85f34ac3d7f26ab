"""`sluice demo` in its own process, as a newcomer runs it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.server import ANSWER_SECONDS, ROOT, START_SECONDS, STOP_SECONDS

DEMO = [sys.executable, "-m", "cli.main", "demo"]
PYTHON = sys.executable.removeprefix(f"{ROOT}/")


def run_as_printed(start: str, printed: str) -> str:
    """Runs the printed command that starts so, with the lines that continue it, in a shell at the root."""
    lines = printed.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"    {start}"))
    last = next(number for number in range(first, len(lines)) if not lines[number].endswith("\\"))
    command = "\n".join(lines[first : last + 1])
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_the_demo_shares_and_reads_a_table_and_reports_the_skipped_files() -> None:
    result = subprocess.run(
        [*DEMO, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["limit"] == {"rows": 5, "filesListed": 1}
    assert report["predicate"] == {"rows": 17_000, "filesListed": 17, "filesSkipped": 187}
    assert len(report["steps"]) == 7
    assert report["seconds"] >= sum(step["seconds"] for step in report["steps"]) - 0.1
    assert not Path(report["profile"]).exists(), "nothing is left behind"


def test_the_demo_prints_steps_and_rows_and_with_keep_it_serves_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [*DEMO, "--keep"], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    printed = ""
    try:
        for line in process.stdout:
            printed += line
            if "Press Ctrl-C" in line:
                break
        assert printed.startswith("Shares a year of taxi trips"), "the first line appears before the slow imports"
        assert printed.count("✓") == 7
        for shown in ("17 of 204 files listed, 187 skipped", "Amsterdam", "load_as_pandas", "deltaSharing", "curl"):
            assert shown in printed
        endpoint = next(word for word in printed.split() if word.startswith("http://"))
        profile = Path(next(word for word in printed.split() if word.endswith("demo.share.")).rstrip("."))
        token = json.loads(profile.read_text())["bearerToken"]
        assert profile.stat().st_mode & 0o777 == 0o600
        request = urllib.request.Request(f"{endpoint}/shares", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            assert json.load(answer)["items"][0]["name"] == "demo"
        assert run_as_printed(f"{PYTHON} -c", printed).count("+00:00") == 10, "ten trips, each with its time"
        assert json.loads(run_as_printed("curl", printed))["items"][0]["name"] == "cities"
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(STOP_SECONDS) == 0
