"""`sluice demo`, as a stranger runs it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "cli.main", "demo"]


def test_the_demo_shares_and_reads_a_table_and_shows_what_was_skipped() -> None:
    done = subprocess.run([*DEMO, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert story["limit"] == {"rows": 5, "filesListed": 1}
    assert story["predicate"] == {"rows": 17_000, "filesListed": 17, "filesSkipped": 187}
    assert len(story["steps"]) == 6
    assert not Path(story["profile"]).exists(), "nothing is left behind"


def test_for_a_person_it_shows_steps_and_rows_and_kept_it_goes_on_serving_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [*DEMO, "--keep"], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "Press Ctrl-C" in line:
            break
    try:
        assert printed.count("✓") == 6
        for shown in ("17 of 204 files listed, 187 skipped", "Amsterdam", "load_as_pandas", "deltaSharing", "curl"):
            assert shown in printed
        endpoint = next(word for word in printed.split() if word.startswith("http://"))
        profile = Path(next(word for word in printed.split() if word.endswith("demo.share.")).rstrip("."))
        token = json.loads(profile.read_text())["bearerToken"]
        assert profile.stat().st_mode & 0o777 == 0o600
        request = urllib.request.Request(f"{endpoint}/shares", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["items"][0]["name"] == "demo"
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(60) == 0
