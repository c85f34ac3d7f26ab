"""`sluice serve`: the same functions as deployed, on this machine, until it is stopped."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.commands.common import Json, account_of
from cli.output import Output

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


def serve(
    context: typer.Context,
    shares: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="The shares to serve. A table may be a local directory."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen.", show_default=DEFAULT_HOST)] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="0 takes any free one.", show_default=str(DEFAULT_PORT))
    ] = None,
    profile_out: Annotated[
        Path, typer.Option(metavar="PATH", help="Where to write the profile of the recipient `local`.")
    ] = Path("sluice.share"),
    aws: Annotated[
        Literal["embedded", "env"], typer.Option(help="An AWS of its own, or the account in the environment.")
    ] = "embedded",
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the embedded AWS's state here for the next run.")
    ] = None,
    admin_env_out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Write `export` lines with which the other commands reach the embedded AWS, as its owner.",
        ),
    ] = None,
    log_level: Annotated[Literal["INFO", "WARNING", "ERROR"], typer.Option(help="What to log.")] = "WARNING",
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a line for each request.")] = False,
    as_json: Json = False,
) -> None:
    """Serve shares on this machine, until Ctrl-C.

    Starts an embedded AWS, applies the shares file, and writes a profile file for the recipient `local`, who may read
    everything. Local tables are copied into the embedded AWS and followed: a new commit shows within seconds.

    Example: sluice serve --shares shares.yaml --port 8080
    """
    if aws == "env" and (data or admin_env_out):
        raise typer.BadParameter("--data and --admin-env-out are for the embedded AWS, not for --aws env.")
    from cli.serve.session import ServeOptions
    from cli.serve.terminal import prefix_of, print_access, serve_until_stopped
    from cli.shares_file import load

    desired = load(shares, local_tables=aws == "embedded") if shares else None
    if desired:
        host = host or desired.host
        port = desired.port if port is None else port
    options = ServeOptions(
        shares=desired,
        host=host or DEFAULT_HOST,
        port=DEFAULT_PORT if port is None else port,
        prefix=prefix_of(desired),
        profile_path=profile_out,
        account=account_of(context) if aws == "env" else None,
        data=data,
        log_level=log_level,
        access_log=print_access if verbose else None,
    )
    serve_until_stopped(options, Output(as_json=as_json), admin_env_out=admin_env_out)
