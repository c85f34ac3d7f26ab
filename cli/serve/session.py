"""Starts everything that `sluice serve` needs, as one context manager that stops all of it at the end.

Reserves the port first, so nothing starts if the port is in use. Imports the functions last, when the environment
variables of the process match those in Lambda.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from cli.apply.plan import apply_file
from cli.apply.shares_file import SharesFile
from cli.common.account import Account, environment_restored
from cli.common.documents import profile_document
from cli.common.errors import CommandError
from cli.common.private_file import write_private
from cli.embedded.ministack import EmbeddedAws, embedded_aws
from cli.embedded.mirror import Mirror
from cli.embedded.setup import (
    DATA_BUCKET,
    QUERY_QUEUE_URL,
    catalog_admin,
    forget_other_accounts,
    s3_client,
    set_up,
)
from cli.serve.app import Front, import_functions
from cli.serve.logs import LogFormat, functions_logging, serve_log
from cli.serve.memory import freed_memory_returned
from cli.serve.routes import PREFIX, read_routes
from cli.serve.server import bind, serving
from cli.serve.worker import preparing_queries
from core.catalog.admin import CatalogAdmin
from core.catalog.errors import CatalogError, EntryNotFoundError
from core.catalog.model import Token
from core.sharing.services import process_services
from core.storage.location import S3Location

RECIPIENT = "local"
# Short in a real catalog: a command that is killed cannot revoke its token.
TOKEN_SECONDS = 86_400
EMBEDDED_TOKEN_SECONDS = 30 * 86_400
THREADS = 32
# Folder in `--data` that remembers which files were copied.
COPIES = "copies"
# Takes 0.5 s to import. Functions import it at the first SQL hint, this server at the start.
SQL_PARSER = "core.pruning.parsing.spark_sql"

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    profile_path: Path
    shares: SharesFile | None = None
    host: str = "127.0.0.1"
    port: int = 0
    prefix: str = PREFIX
    account: Account | None = None
    """The AWS account to serve. None starts an embedded AWS."""
    data: Path | None = None
    """The folder for the state of the embedded AWS. None discards the state at the end."""
    async_log_mb: float | None = None
    """The longest log that is read while a client waits. None reads every log."""
    log_level: str = "WARNING"
    log_format: LogFormat = "text"
    verbose: bool = False
    """Whether to log every request, not only refused ones."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    endpoint: str
    profile_path: Path
    token: str = field(repr=False)
    admin: CatalogAdmin
    aws: EmbeddedAws | None
    """None if the server uses the account of the environment."""

    def check_running(self) -> None:
        if self.aws:
            self.aws.check_running()


@contextlib.contextmanager
def running_server(options: ServeOptions, on_progress: Progress) -> Iterator[RunningServer]:
    """Serves inside the block. Calls `on_progress` with each step of the start."""
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(bind(options.host, options.port))
        stack.enter_context(freed_memory_returned())
        stack.enter_context(environment_restored())
        os.environ |= {"POWERTOOLS_METRICS_DISABLED": "true", "POWERTOOLS_LOG_LEVEL": options.log_level}
        if options.async_log_mb is not None:
            os.environ["SLUICE_ASYNC_LOG_MB"] = str(options.async_log_mb)
        aws = None
        if options.account:
            admin = _use_account(options.account, options.shares)
        else:
            aws, admin = _start_embedded(stack, options, on_progress)
        lifetime = EMBEDDED_TOKEN_SECONDS if aws else TOKEN_SECONDS
        token, secret = stack.enter_context(_token_of_local_recipient(admin, lifetime))
        on_progress("Starting the functions")
        routes = read_routes(prefix=options.prefix)
        process_services.cache_clear()  # an earlier server of this process may have had another environment
        functions = import_functions(routes)
        log = serve_log(options.log_format, options.log_level, every_request=options.verbose)
        stack.enter_context(functions_logging(log, options.log_level))
        threads = _threads(stack)
        front = Front(routes, functions, threads, log.access)
        if aws and options.async_log_mb is not None:
            stack.enter_context(preparing_queries(os.environ[QUERY_QUEUE_URL]))
        stack.enter_context(serving(front, bound))
        threads.submit(import_module, SQL_PARSER)
        endpoint = f"http://{_reachable(bound)}{options.prefix}"
        profile = profile_document(endpoint, secret, token)
        write_private(options.profile_path, json.dumps(profile, indent=2) + "\n")
        yield RunningServer(endpoint, options.profile_path, secret, admin, aws)


def _start_embedded(
    stack: contextlib.ExitStack, options: ServeOptions, on_progress: Progress
) -> tuple[EmbeddedAws, CatalogAdmin]:
    if options.shares:
        _refuse_other_buckets(options.shares)
    on_progress("Starting the embedded AWS")
    forget_other_accounts()
    aws = stack.enter_context(embedded_aws(options.data))
    os.environ |= set_up(aws, asynchronous=options.async_log_mb is not None)
    admin = catalog_admin(aws)
    if options.shares:
        kept = options.data / COPIES if options.data else None
        mirror = Mirror(s3_client(aws), DATA_BUCKET, kept=kept)

        def locate(directory: Path) -> str:
            def report(done: int, total: int) -> None:
                on_progress(f"Copying {directory}: {done:,} of {total:,} files")

            return mirror.add(directory, report)

        apply_file(options.shares, admin, locate=locate)
        stack.enter_context(mirror.watching())
    return aws, admin


def _refuse_other_buckets(shares: SharesFile) -> None:
    tables = (table for share in shares.shares for schema in share.schemas for table in schema.tables)
    for table in tables:
        if table.directory is None and S3Location.parse(table.location).bucket != DATA_BUCKET:
            raise CommandError(
                f"{table.location} is not in the embedded AWS. Use --aws env for the tables of your account, "
                "or the path of a local directory."
            )


def _use_account(account: Account, shares: SharesFile | None) -> CatalogAdmin:
    if account.session.get_credentials() is None:
        raise NoCredentialsError
    account.export()
    admin = account.admin()
    if shares:
        apply_file(shares, admin)
    return admin


@contextlib.contextmanager
def _token_of_local_recipient(admin: CatalogAdmin, lifetime_seconds: int) -> Iterator[tuple[Token, str]]:
    """Issues a token that can read every share, and revokes it at the end."""
    try:
        admin.recipient(RECIPIENT)
    except EntryNotFoundError:
        admin.put_recipient(RECIPIENT)
    for share in admin.shares():
        admin.grant(RECIPIENT, share.name)
    token, secret = admin.issue_token(RECIPIENT, lifetime_seconds=lifetime_seconds)
    try:
        yield token, secret
    finally:
        # If this fails, the token still expires.
        with contextlib.suppress(CatalogError, BotoCoreError, ClientError):
            admin.revoke_token(RECIPIENT, token.id)


def _threads(stack: contextlib.ExitStack) -> ThreadPoolExecutor:
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="function")
    stack.callback(threads.shutdown, wait=False, cancel_futures=True)
    return threads


def _reachable(bound: socket.socket) -> str:
    """Returns an address for local clients. A wildcard address such as 0.0.0.0 becomes a loopback address."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
