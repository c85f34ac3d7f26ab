"""Where the `sluice` script begins: before anything is imported that may be missing, or that takes its time."""

import sys


def main() -> None:
    try:
        from cli.main import main as run
    except ModuleNotFoundError as missing:
        sys.exit(f"Error: {missing.name} is not installed: the command needs the extra `local` (sluice[local]).")
    except KeyboardInterrupt:
        sys.exit(130)
    run()
