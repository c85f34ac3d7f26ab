"""Entry point of the `sluice` script. Exits quietly on Ctrl-C during the imports, which take up to a second."""

import sys
import time

STARTED = time.perf_counter()
"""When the command started, before its imports."""


def main() -> None:
    try:
        from cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
