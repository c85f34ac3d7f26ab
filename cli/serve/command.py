"""`sluice serve`: runs the functions of the server on this machine until it is stopped."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.common.options import Json, account_of
from cli.common.output import Output

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


def serve(
    context: typer.Context,
    shares: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="YAML file with the shares to serve. Tables may be local directories."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help=f"Address to listen on. Default: {DEFAULT_HOST}.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, metavar="PORT", help=f"Port to listen on. 0 picks a free one. Default: {DEFAULT_PORT}."
        ),
    ] = None,
    profile_out: Annotated[
        Path, typer.Option(metavar="PATH", help="Profile file to write, for the recipient `local`.")
    ] = Path("sluice.share"),
    aws: Annotated[
        Literal["embedded", "env"], typer.Option(help="Use an embedded AWS, or your AWS account (env).")
    ] = "embedded",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder that keeps the state of the embedded AWS for the next run."),
    ] = None,
    async_log_mb: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Answer queries asynchronously if the table has no index and a log of more than N megabytes. "
            "0 does so for every table without an index.",
        ),
    ] = None,
    admin_env_out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Shell file to write. Load it with `source` to use the embedded AWS in other commands.",
        ),
    ] = None,
    log_level: Annotated[
        Literal["INFO", "WARNING", "ERROR"], typer.Option(help="Level of the logs on stderr.")
    ] = "WARNING",
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(help="Print a line of text for each refused request, or JSON lines as in Lambda."),
    ] = "text",
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a line for each request.")] = False,
    as_json: Json = False,
) -> None:
    """Serve shares on this machine until Ctrl-C.

    Starts an embedded AWS, applies the shares file, and writes a profile file for the recipient `local`, who may read
    every share. Copies local tables to the embedded AWS, and new commits within seconds.

    Example: sluice serve --shares shares.yaml --port 8080
    """
    if aws == "env" and (data or admin_env_out):
        raise typer.BadParameter("--data and --admin-env-out need the embedded AWS and cannot be used with --aws env.")
    from cli.apply.shares_file import load
    from cli.serve.session import ServeOptions
    from cli.serve.terminal import prefix_of, serve_until_stopped

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
        async_log_mb=async_log_mb,
        log_level=log_level,
        log_format=log_format,
        verbose=verbose,
    )
    serve_until_stopped(options, Output(as_json=as_json), admin_env_out=admin_env_out)
