"""Turns each failure to read a table into a CommandError."""

import contextlib
from collections.abc import Iterator

from cli.common.errors import CommandError
from core.catalog.model import Table
from core.errors import DamagedLogError, SharingError, TableFilesError
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError


@contextlib.contextmanager
def reading(table: Table) -> Iterator[None]:
    try:
        yield
    except (NoStorageRoleError, InvalidLocationError, TableFilesError) as error:
        message = f"The table '{table.full_name}' cannot be read: {error.__cause__ or error}."
        raise CommandError(f"{message} Run `sluice doctor {table.full_name}` to find the cause.") from error
    except DamagedLogError as error:
        raise CommandError(f"The table '{table.full_name}' cannot be read: {error.problem}.") from error
    except SharingError as error:
        raise CommandError(error.message) from error
