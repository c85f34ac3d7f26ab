"""The cache counts what tables take in memory. Its limit holds only if the counts are true."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.counted_memory import CASES
from tests.server import ROOT

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Only glibc reports all memory in use.")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_counted_memory_is_close_to_what_is_used(case: Callable[[], Any]) -> None:
    command = [sys.executable, "-m", "tests.counted_memory", case.__name__]
    environment = os.environ | {"PYTHONMALLOC": "malloc"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    assert 0.85 * measured["used"] <= measured["counted"] <= 1.5 * measured["used"], measured
