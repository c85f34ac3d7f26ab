"""`sluice demo`: share a table and read it back, without an account and without set-up."""

from typing import Annotated

import typer

from cli.commands.common import Json
from cli.output import Output

INTERRUPTED = 130


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the endpoint running, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any free port.")] = 0,
    as_json: Json = False,
) -> None:
    """Share a year of made-up trips from an embedded AWS, and read them back with the published client."""
    from cli.demo.show import show  # brings pandas and the published client: seconds to import

    if not show(Output(as_json=as_json), keep=keep, port=port):
        raise typer.Exit(INTERRUPTED)
