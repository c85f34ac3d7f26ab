"""What can go wrong when the provider changes the catalog.

These are for the provider's eyes (the command line), never for a recipient's: that family is `core.errors`.
"""


class CatalogError(Exception):
    """The message says what is wrong; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidEntryError(CatalogError):
    """A name, an id or a value that the catalog does not take."""


class EntryNotFoundError(CatalogError):
    """The entry, or the one it belongs to, does not exist."""


class EntryExistsError(CatalogError):
    """An id that belongs to something else already, or another id for an entry that has one."""


class EntryInUseError(CatalogError):
    """The entry still has others below it."""


class ConflictError(CatalogError):
    """Others kept changing the same entry at the same time."""


class LimitError(CatalogError):
    """More than the catalog holds in one entry."""
