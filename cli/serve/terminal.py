"""Runs `sluice serve` in a terminal: prints the endpoint and the profile, and serves until Ctrl-C."""

import logging
import re
import shlex
import sys
from ipaddress import ip_address
from pathlib import Path

from rich.text import Text

from cli.apply.shares_file import SharesFile
from cli.apply.table_ids import TableIds
from cli.common.account import Account
from cli.common.errors import CommandError
from cli.common.output import Output
from cli.common.private_file import write_private
from cli.common.signals import until_stopped
from cli.embedded.setup import owner_environment
from cli.serve.logs import root_handler
from cli.serve.progress import start_progress
from cli.serve.routes import PREFIX
from cli.serve.session import RunningServer, ServeOptions, running_server
from core.catalog.admin import CatalogAdmin

# Variables that would override the embedded AWS in admin commands.
FOREIGN_VARIABLES = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB")
SUPPORTED_SETTINGS = ("host", "port", "endpoint")
SNIPPET = """
    import delta_sharing
    delta_sharing.SharingClient("{profile}").list_all_tables()
    delta_sharing.load_as_pandas("{profile}#{table}", limit=10)
"""


def serve_until_stopped(options: ServeOptions, output: Output, *, admin_env_out: Path | None) -> None:
    logging.basicConfig(level=options.log_level, handlers=[root_handler(options.log_format)])
    for note in _notes(options.shares, options.account, options.host):
        output.note(note)
    progress = start_progress(sys.stderr)
    with until_stopped() as stop, progress, running_server(options, progress.update) as server:
        progress.stop()
        if admin_env_out and server.aws:
            variables = {**owner_environment(server.aws), "SLUICE_ENDPOINT": server.endpoint}
            exports = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
            write_private(admin_env_out, f"unset {' '.join(FOREIGN_VARIABLES)}\n" + "".join(exports))
        _print_ready(output, server)
        stop.wait(server.check_running)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def prefix_of(shares: SharesFile | None) -> str:
    """Returns the `endpoint` of the reference server's file. `/` means no prefix."""
    if shares is None or shares.endpoint is None:
        return PREFIX
    prefix = shares.endpoint.rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]+)*", prefix, re.ASCII):
        raise CommandError(f"'{shares.endpoint}' is not a valid endpoint path. Expected a path such as {PREFIX}.")
    return prefix


def _notes(shares: SharesFile | None, account: Account | None, host: str) -> list[str]:
    notes = []
    if shares and (warning := shares.warning(supported=SUPPORTED_SETTINGS)):
        notes.append(warning)
    notes += TableIds(shares.shares).warnings if shares else []
    if account is None and not is_loopback(host):
        notes.append(f"Other machines can connect to {host}, but signed URLs point to the embedded AWS on 127.0.0.1.")
    if account and not account.settings.storage_role_arn:
        notes.append("SLUICE_STORAGE_ROLE_ARN is not set. Only tables with their own role can be read.")
    return notes


def _print_ready(output: Output, server: RunningServer) -> None:
    document = {"endpoint": server.endpoint, "profile": str(server.profile_path.absolute())}
    if output.as_json:
        output.document(document)
        return
    output.print(Text.assemble("Endpoint  ", (server.endpoint, "bold")))
    output.print(Text.assemble("Profile   ", (str(server.profile_path), "bold"), " (may read every share)"))
    table = _a_table(server.admin) or "share.schema.table"
    output.print(SNIPPET.format(profile=server.profile_path, table=table))
    output.print("Press Ctrl-C to stop.")


def _a_table(admin: CatalogAdmin) -> str | None:
    return next((table.full_name for share in admin.shares() for table in admin.tables(share.name)), None)
