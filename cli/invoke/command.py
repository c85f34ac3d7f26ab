"""`sluice invoke`: runs a function with an event, as Lambda would."""

from pathlib import Path
from typing import Annotated

import typer

from cli.common.options import Json, account_of
from cli.common.output import Output
from cli.common.signals import INTERRUPTED


def invoke(
    context: typer.Context,
    event: Annotated[
        Path,
        typer.Argument(metavar="EVENT.json", help="File with an API Gateway event (events/ has some). - reads stdin."),
    ],
    function: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Function of the template, such as QueryTable. Default: that of the event's resource and method.",
        ),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Environment variables for the function, such as the file of `sluice serve --admin-env-out`.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE.share", help="Profile file whose token replaces that of the event."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one function with an event, in the Lambda runtime and without Docker. Needs Linux.

    Uses AWS's Runtime Interface Emulator, which also applies the function's timeout and the 6 MB limit of answers. The
    function runs from source with your AWS account, or with the embedded AWS of `--env-file`. Its log goes to stderr,
    its answer, decoded, to stdout. The first use installs the emulator.

    The exit code is 0 if the function answers, also with an error of the protocol, and 1 if it fails or times out.

    Example: sluice invoke events/query_table.json --env-file admin.env --profile sluice.share
    """
    from cli.invoke.run import invoke_event, show_answer

    output = Output(as_json=as_json)
    answer = invoke_event(account_of(context), event, function, env_file, profile, output)
    if answer is None:
        raise typer.Exit(INTERRUPTED)
    show_answer(answer, output, with_profile=profile is not None)
