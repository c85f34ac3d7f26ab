"""Writes the software bill of materials (SBOM; CycloneDX 1.5, JSON) of a release: `make sbom`.

uv exports it from `uv.lock`. Its random serial number and current time are replaced by values that depend only on the
commit, so that two exports of one commit are identical.
"""

import argparse
import json
import subprocess
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli.embedded.environment import find_uv

ROOT = Path(__file__).parents[1]
# The extras that users install. Development tools are not shipped.
SHIPPED_EXTRAS = ("pipeline",)


def write_sbom(path: Path) -> None:
    """Writes the SBOM of the checkout, with the time of its last commit."""
    bom = reproducible(json.loads(_export()), datetime.fromtimestamp(commit_time(), UTC))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bom, indent=2) + "\n")


def reproducible(bom: dict[str, Any], created: datetime) -> dict[str, Any]:
    """Returns `bom` with the given time and a serial number derived from its content."""
    dated = bom | {"metadata": bom["metadata"] | {"timestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    del dated["serialNumber"]
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(dated, sort_keys=True))
    return dated | {"serialNumber": serial.urn}


def commit_time() -> int:
    """Returns the time of the checked-out commit, in seconds since 1970."""
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def _export() -> str:
    extras = [option for extra in SHIPPED_EXTRAS for option in ("--extra", extra)]
    command = [find_uv() or "uv", "export", "--frozen", "--no-default-groups", *extras]
    command += ["--format", "cyclonedx1.5", "--preview-features", "sbom-export"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv cannot export an SBOM from uv.lock: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="the file to write")
    path = parser.parse_args().file
    write_sbom(path)
    print(path)


if __name__ == "__main__":
    main()
