"""Reading a table for a command: whatever keeps the server from it is told in one sentence."""

import contextlib
from collections.abc import Iterator

from cli.errors import CommandError
from core.catalog.model import Table
from core.errors import SharingError, TableFilesError
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError


@contextlib.contextmanager
def reading(table: Table) -> Iterator[None]:
    try:
        yield
    except (NoStorageRoleError, InvalidLocationError, TableFilesError) as error:
        message = f"The table '{table.full_name}' cannot be read: {error.__cause__ or error}."
        raise CommandError(f"{message} `sluice doctor {table.full_name}` says what to do.") from error
    except SharingError as error:
        raise CommandError(error.message) from error
