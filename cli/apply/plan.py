"""Plans and applies the changes that make the catalog match a file.

A plan removes entries before it adds any, so a table can move and keep its id. After a plan is applied, planning again
returns an empty plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from cli.apply.shares_file import RecipientEntry, ShareEntry, SharesFile, TableEntry
from cli.apply.table_ids import TableIds, table_key
from cli.common.differences import Difference, differences_of
from cli.common.errors import CommandError
from core.catalog import names
from core.catalog.admin import CatalogAdmin
from core.catalog.admin.checks import same_location
from core.catalog.model import Grant, Recipient, Schema, Share, Table

Action: TypeAlias = Literal["add", "update", "remove"]
Kind: TypeAlias = Literal["share", "schema", "table", "recipient", "grant"]
Arguments: TypeAlias = Mapping[str, Any]
Named = TypeVar("Named", Share, Schema, Recipient)
Locate: TypeAlias = Callable[[Path], str]
"""Maps a local directory to its location in S3."""


@dataclass(frozen=True, slots=True)
class Change:
    action: Action
    kind: Kind
    name: str
    differences: tuple[Difference, ...]
    write: Callable[[], object] = field(repr=False, compare=False)


def plan(
    desired: SharesFile, admin: CatalogAdmin, *, prune: bool = False, locate: Locate | None = None
) -> list[Change]:
    """Returns the changes that make the catalog contain the file's entries; with `prune`, only those."""
    planner = _Planner(admin, TableIds(desired.shares), prune=prune, locate=locate)
    planner.shares(desired.shares)
    if desired.recipients is not None:
        planner.recipients(desired.recipients)
    planner.check_new_ids()
    return [*planner.removals, *planner.additions]


def apply_file(
    desired: SharesFile, admin: CatalogAdmin, *, prune: bool = False, locate: Locate | None = None
) -> list[Change]:
    """Plans the changes, applies them and returns them."""
    changes = plan(desired, admin, prune=prune, locate=locate)
    for change in changes:
        change.write()
    return changes


def described_tables(desired: SharesFile) -> Iterator[Table]:
    """Returns the tables of a file that are in S3, as catalog entries."""
    for share in desired.shares:
        for schema in share.schemas:
            for entry in schema.tables:
                content = table_arguments(entry, entry.location)
                yield Table(entry.name, schema.name, share.name, share_id="", id=entry.id or "", **content)


def table_arguments(entry: TableEntry, location: str) -> dict[str, Any]:
    """Returns the fields of a table under their names in the catalog."""
    return {
        "location": location,
        "auxiliary_locations": tuple(entry.auxiliary_locations),
        "access_modes": tuple(entry.access_modes),
        "history_shared": entry.history_shared,
        "start_version": entry.start_version,
        "staleness_seconds": round(entry.staleness_seconds, 3),  # the stored form
        "role_arn": entry.role_arn,
        "external_id": entry.external_id,
        "region": entry.region,
        "kms_key_arn": entry.kms_key_arn,
    }


class _Planner:
    def __init__(self, admin: CatalogAdmin, table_ids: TableIds, *, prune: bool, locate: Locate | None) -> None:
        self._admin = admin
        self._table_ids = table_ids
        self._prune = prune
        self._locate = locate
        self._current_shares = _by_key(admin.shares())
        self._new_tables: list[Table] = []
        self.removals: list[Change] = []
        self.additions: list[Change] = []

    def shares(self, entries: Iterable[ShareEntry]) -> None:
        obsolete = dict(self._current_shares)
        for entry in entries:
            self._share(entry, obsolete.pop(names.key(entry.name), None))
        if self._prune:
            for key, share in obsolete.items():
                self._remove_below(share.name, self._admin.schemas(share.name), self._admin.tables(share.name))
                self._remove("share", share.name, partial(self._admin.remove_share, share.name))
                del self._current_shares[key]

    def _share(self, entry: ShareEntry, current: Share | None) -> None:
        _check_id("share", entry.name, entry.id, current)
        arguments = {
            "display_name": entry.display_name,
            "comment": entry.comment,
            "properties": entry.properties,
        }
        put = partial(self._admin.put_share, entry.name, share_id=entry.id)
        self._put("share", entry.name, current, arguments, put)
        obsolete_schemas = _by_key(self._admin.schemas(current.name)) if current else {}
        obsolete_tables = {
            (names.key(table.schema), names.key(table.name)): table
            for table in (self._admin.tables(current.name) if current else ())
        }
        for schema in entry.schemas:
            schema_key = names.key(schema.name)
            current_schema = obsolete_schemas.pop(schema_key, None)
            put_schema = partial(self._admin.put_schema, entry.name, schema.name)
            self._put("schema", f"{entry.name}.{schema.name}", current_schema, {}, put_schema)
            for table in schema.tables:
                current_table = obsolete_tables.pop((schema_key, names.key(table.name)), None)
                self._table(entry.name, schema.name, table, current_table)
        self._remove_below(entry.name, obsolete_schemas.values(), obsolete_tables.values())

    def _table(self, share: str, schema: str, entry: TableEntry, current: Table | None) -> None:
        name = f"{share}.{schema}.{entry.name}"
        table_id = self._table_ids.of(table_key(share, schema, entry.name), entry.id)
        _check_id("table", name, table_id, current)
        arguments = table_arguments(entry, self._location(entry))
        if table_id and current is None:
            self._new_tables.append(Table(entry.name, schema, share, share_id="", id=table_id, **arguments))
        put = partial(self._admin.put_table, share, schema, entry.name, table_id=table_id)
        self._put("table", name, current, arguments, put)

    def check_new_ids(self) -> None:
        """Rejects the id of a new table if a table that stays in the catalog has it. Runs before the first write.

        The catalog allows the same id only for tables of different shares with the same location.
        """
        removed = {change.name for change in self.removals if change.kind == "table"}
        by_id: dict[str, list[Table]] = {}
        for new in self._new_tables:
            by_id.setdefault(new.id, []).append(new)
        for share in self._admin.shares() if by_id else ():
            for table in self._admin.tables(share.name):
                for new in by_id.get(table.id, ()) if table.full_name not in removed else ():
                    same_share = names.key(new.share) == names.key(table.share)
                    if same_share or not same_location(new.location, table.location):
                        raise CommandError(
                            f"The id {table.id} of the table '{new.full_name}' is already the id of "
                            f"'{table.full_name}' in the catalog. "
                            "Remove the id from the file, or remove that table first."
                        )

    def _location(self, entry: TableEntry) -> str:
        if entry.directory is None:
            return entry.location
        if self._locate is None:
            raise CommandError(f"{entry.location} is a local directory. Only `sluice serve` can share it.")
        return self._locate(entry.directory)

    def recipients(self, entries: Iterable[RecipientEntry]) -> None:
        obsolete = _by_key(self._admin.recipients())
        for entry in entries:
            current = obsolete.pop(names.key(entry.name), None)
            put = partial(self._admin.put_recipient, entry.name)
            self._put("recipient", entry.name, current, {"comment": entry.comment}, put)
            self._grants(entry, current)
        for recipient in obsolete.values():
            self._remove("recipient", recipient.name, partial(self._admin.remove_recipient, recipient.name))

    def _grants(self, entry: RecipientEntry, current: Recipient | None) -> None:
        wanted = {names.key(share): share for share in entry.shares}
        grants = current.grants if current else ()
        held = {names.key(grant.share): grant.share for grant in grants if self._is_valid(grant)}
        for key, share in wanted.items():
            if key not in held:
                self._put("grant", f"{entry.name} {share}", None, {}, partial(self._admin.grant, entry.name, share))
        for key, share in held.items():
            if key not in wanted:
                revoke = partial(self._admin.revoke, entry.name, share)
                self._remove("grant", f"{entry.name} {share}", revoke)

    def _is_valid(self, grant: Grant) -> bool:
        """Whether the share of the grant still exists, and was not recreated under the same name."""
        share = self._current_shares.get(names.key(grant.share))
        return share is not None and share.id == grant.share_id

    def _put(
        self, kind: Kind, name: str, current: object | None, arguments: Arguments, put: Callable[..., object]
    ) -> None:
        differences = tuple(differences_of(current, arguments))
        if current is None or differences:
            action: Action = "add" if current is None else "update"
            self.additions.append(Change(action, kind, name, differences, partial(put, **arguments)))

    def _remove(self, kind: Kind, name: str, remove: Callable[[], object]) -> None:
        if self._prune:
            self.removals.append(Change("remove", kind, name, (), remove))

    def _remove_below(self, share: str, schemas: Iterable[Schema], tables: Iterable[Table]) -> None:
        for table in tables:
            remove = partial(self._admin.remove_table, share, table.schema, table.name)
            self._remove("table", table.full_name, remove)
        for schema in schemas:
            remove_schema = partial(self._admin.remove_schema, share, schema.name)
            self._remove("schema", f"{share}.{schema.name}", remove_schema)


def _check_id(kind: Kind, name: str, wanted: str | None, current: Share | Table | None) -> None:
    if wanted and current and wanted != current.id:
        raise CommandError(
            f"The {kind} '{name}' has the id {current.id} in the catalog, not {wanted}. An id never changes: "
            f"remove it from the file, or remove the {kind} first."
        )


def _by_key(entries: Iterable[Named]) -> dict[str, Named]:
    return {names.key(entry.name): entry for entry in entries}
