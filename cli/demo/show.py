"""The steps of the demo, from writing the table to reading its rows."""

import contextlib
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from cli.apply.shares_file import load
from cli.common.errors import CommandError
from cli.common.output import Output
from cli.common.signals import until_stopped
from cli.demo import trips
from cli.demo.recipient import Reader, month_predicate
from cli.demo.steps import Story
from cli.serve.session import RunningServer, ServeOptions, running_server

TRIPS = "demo.europe.trips"
LIMIT = 5
MONTH = trips.MONTHS[6]
PROFILE = "demo.share"

SNIPPETS = """
Paste these into another terminal. Read it with pandas:

    {python} -c 'import delta_sharing; print(delta_sharing.load_as_pandas("{profile}#{table}", limit=10))'

with curl:

    curl -H "Authorization: Bearer $(sed -n 's/.*"bearerToken": "\\([^"]*\\)".*/\\1/p' {profile})" \\
      {endpoint}/shares/demo/all-tables

with Spark, in a session with the package io.delta:delta-sharing-spark (docs/clients/spark.md):

    spark.read.format("deltaSharing").load("{profile}#{table}").show()

The endpoint is {endpoint}; the profile file is {profile}. Press Ctrl-C to stop.
"""


def show(output: Output, story: Story, *, keep: bool, port: int) -> bool:
    """Returns whether the demo finished. False means that a signal stopped it."""
    finished = False
    with until_stopped() as stop, contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-demo-")))
        _write(folder, story)
        server = _serve(folder, port, story, stack)
        facts = _read(Reader(server.profile_path), story)
        story.end(endpoint=server.endpoint, profile=str(server.profile_path), **facts)
        finished = True
        if keep:
            if not output.as_json:
                output.print(_snippets(server))
            stop.wait(server.check_running)
    return finished


def _snippets(server: RunningServer) -> str:
    return SNIPPETS.format(python=interpreter(), profile=server.profile_path, endpoint=server.endpoint, table=TRIPS)


def interpreter() -> str:
    """Returns the interpreter that has the client, as a shell needs it: `.venv/bin/python` in a checkout."""
    python = Path(sys.executable)
    with contextlib.suppress(ValueError):
        python = python.relative_to(Path.cwd())
    return shlex.quote(str(python))


def _write(folder: Path, story: Story) -> None:
    with story.step("Provider: writes a year of trips with deltalake") as step:
        for files in trips.write_trips(folder / "trips"):
            step.progress(f"{files} of {trips.FILES} files")
        trips.write_cities(folder / "cities")
        step.result = f"{trips.FILES} files, {len(trips.MONTHS)} commits"


def _serve(folder: Path, port: int, story: Story, stack: contextlib.ExitStack) -> RunningServer:
    shares = folder / "shares.yaml"
    tables = [{"name": name, "location": str(folder / name)} for name in ("trips", "cities")]
    document = {"version": 1, "shares": [{"name": "demo", "schemas": [{"name": "europe", "tables": tables}]}]}
    shares.write_text(yaml.safe_dump(document))
    with story.step("Provider: serves them from an embedded AWS") as step:
        options = ServeOptions(shares=load(shares, local_tables=True), port=port, profile_path=folder / PROFILE)
        server = stack.enter_context(running_server(options, step.progress))
        step.result = server.endpoint
    return server


def _read(reader: Reader, story: Story) -> dict[str, Any]:
    with story.step("Recipient: lists what is shared") as step:
        step.result = ", ".join(reader.tables())
    with story.step("Recipient: looks at the schema") as step:
        step.result = ", ".join(f"{name} {data_type}" for name, data_type in reader.columns(TRIPS))
    with story.step(f"Recipient: load_as_pandas, limit={LIMIT}") as step:
        rows = reader.first_rows(TRIPS, LIMIT)
        limited = reader.files(TRIPS, limit=LIMIT)
        step.result = f"{len(rows)} rows; {_funnel(limited)}"
    story.rows(rows, f"the first {LIMIT} trips")
    with story.step(f"Recipient: load_as_pandas, month = {MONTH}") as step:
        predicate = month_predicate(MONTH)
        matching = reader.rows_where(TRIPS, predicate)
        listed = reader.files(TRIPS, predicate=predicate)
        step.result = f"{len(matching):,} rows; {_funnel(listed)}"
    if len(matching) != len(trips.CITIES) * trips.TRIPS_PER_FILE or set(matching["month"]) != {MONTH}:
        raise CommandError("The demo read different rows than it wrote. Please report this bug.")
    fares = matching.groupby("city")["fare"].agg(["count", "mean"]).round(2).reset_index().head(LIMIT)
    story.rows(fares, f"fares of {MONTH:%B %Y}, by city")
    return {
        "table": TRIPS,
        "files": trips.FILES,
        "limit": {"rows": len(rows), "filesListed": limited},
        "predicate": {"rows": len(matching), "filesListed": listed, "filesSkipped": trips.FILES - listed},
    }


def _funnel(listed: int) -> str:
    return f"{listed} of {trips.FILES} files listed, {trips.FILES - listed} skipped"
