"""`sluice demo`: shares a table and reads it back, without an AWS account or configuration."""

from typing import Annotated

import typer

from cli.common.options import Json
from cli.common.output import Output
from cli.common.signals import INTERRUPTED


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server running until Ctrl-C, to try other clients.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on. 0 picks a free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Share a table from an embedded AWS and read it with the published Python client. Needs no AWS account.

    Example: sluice demo --keep
    """
    from cli.demo.show import show  # imports pandas and the published client, which takes seconds

    if not show(Output(as_json=as_json), keep=keep, port=port):
        raise typer.Exit(INTERRUPTED)
