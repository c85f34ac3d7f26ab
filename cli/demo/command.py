"""`sluice demo`: shares a table and reads it back, without an AWS account or configuration."""

from typing import Annotated

import typer

from cli.common.options import Json
from cli.common.output import Output
from cli.common.signals import INTERRUPTED
from cli.demo.steps import Story
from cli.start import STARTED


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server running until Ctrl-C, to try other clients.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Port to listen on. 0 picks a free one.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Share a table from an embedded AWS and read it with the published Python client. Needs no AWS account.

    Example: sluice demo --keep
    """
    output = Output(as_json=as_json)
    story = Story(output, started=STARTED)
    story.begin("Shares a year of taxi trips from an embedded AWS, and reads them back. Takes half a minute or less.")
    with story.step("Loads deltalake, pandas and the published client"):
        from cli.demo.show import show  # takes seconds

    if not show(output, story, keep=keep, port=port):
        raise typer.Exit(INTERRUPTED)
