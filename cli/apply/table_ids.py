"""Table ids that a file uses more than once.

Files of the reference server repeat ids, for example if a table is in several shares. Tables of several shares with the
same location keep their common id. Any other table whose id is taken gets a new one: an id identifies one table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from cli.apply.shares_file import ShareEntry
from core.catalog import names
from core.catalog.admin.checks import same_location

TableKey: TypeAlias = tuple[str, str, str]
"""The keys of the share, the schema and the table."""


@dataclass(frozen=True, slots=True)
class _Owner:
    share: str
    full_name: str
    location: str


class TableIds:
    def __init__(self, shares: Iterable[ShareEntry]) -> None:
        """The first table of the file that has an id keeps it."""
        self._new: set[TableKey] = set()
        self.warnings: list[str] = []
        """One per table whose id is not used."""
        owners: dict[str, list[_Owner]] = {}
        for share in shares:
            for schema in share.schemas:
                for entry in schema.tables:
                    if entry.id is None:
                        continue
                    table = _Owner(names.key(share.name), f"{share.name}.{schema.name}.{entry.name}", entry.location)
                    same_id = owners.setdefault(entry.id, [])
                    if taken := _taken_by(same_id, table):
                        self._new.add(table_key(share.name, schema.name, entry.name))
                        self.warnings.append(
                            f"The table '{table.full_name}' gets a new id, because '{taken.full_name}' has the id "
                            f"{entry.id}. Only tables of different shares with the same location can have the same id."
                        )
                    else:
                        same_id.append(table)

    def of(self, key: TableKey, entry_id: str | None) -> str | None:
        """Returns the id to give to a table; None keeps the id that it has in the catalog, or gives it a new one."""
        return None if key in self._new else entry_id


def table_key(share: str, schema: str, table: str) -> TableKey:
    return names.key(share), names.key(schema), names.key(table)


def _taken_by(owners: list[_Owner], table: _Owner) -> _Owner | None:
    for owner in owners:
        if owner.share == table.share or not same_location(owner.location, table.location):
            return owner
    return None
