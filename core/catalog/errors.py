"""Errors of changes to the catalog.

Only the provider sees them, on the command line. Errors for recipients are in `core.errors`.
"""


class CatalogError(Exception):
    """The catalog was not changed. The message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidEntryError(CatalogError):
    """A name, an id or a value is invalid."""


class EntryNotFoundError(CatalogError):
    """The entry or its parent does not exist."""


class EntryExistsError(CatalogError):
    """The id belongs to another entry, or the entry already has another id."""


class EntryInUseError(CatalogError):
    """The entry still has children."""


class ConflictError(CatalogError):
    """All retries failed, because of concurrent changes or throttling."""


class LimitError(CatalogError):
    """The entry exceeds a limit of the catalog."""
