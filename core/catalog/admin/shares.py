"""Changes shares, schemas and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from core.catalog import items
from core.catalog.admin.base import Administration, Written, new_id
from core.catalog.admin.checks import check_name, check_share, check_table, same_location
from core.catalog.errors import EntryExistsError, EntryInUseError, EntryNotFoundError
from core.catalog.items import Item, Key
from core.catalog.model import URL_ACCESS, Schema, Share, Table
from core.catalog.store import ACTIONS_PER_WRITE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef as Action


class ShareAdministration(Administration):
    def shares(self) -> list[Share]:
        return [items.to_share(item) for item in self._store.query(items.SHARES)]

    def share(self, share: str) -> Share:
        return self._open_share(share)[0]

    def put_share(
        self,
        share: str,
        *,
        display_name: str | None = None,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        share_id: str | None = None,
    ) -> Written[Share]:
        """Creates or replaces a share. An existing share keeps its id and the spelling of its name."""
        content = Share(share, share_id or new_id(), display_name, comment, dict(properties or {}))
        check_share(content)
        key = items.share_key(share)

        def change() -> Written[Share]:
            item = self._store.get([key]).get(key)
            if item is None:
                self._store.write([self._store.create(items.share_item(content, 0))])
                return Written(content, "created")
            old, revision = items.to_share(item), item["revision"]
            _require_same_id("share", old.name, old.id, share_id)
            new = replace(content, name=old.name, id=old.id)
            if new == old:
                return Written(old, "unchanged")
            self._store.write([self._store.replace(items.share_item(new, revision + 1), revision)])
            return Written(new, "updated")

        return self._retry(change)

    def remove_share(self, share: str, *, cascade: bool = False) -> Share:
        """Removes a share; with `cascade`, also its schemas and tables."""

        def change() -> Share:
            old, revision, _ = self._open_share(share)
            children = self._store.query(items.children_pk(share))
            if children and not cascade:
                raise EntryInUseError(f"share '{old.name}' still has schemas")
            self._remove_children(share, revision, children, and_share=True)
            return old

        return self._retry(change)

    def schemas(self, share: str) -> list[Schema]:
        self._open_share(share)
        return [items.to_schema(item) for item in self._store.query(items.children_pk(share), items.SCHEMAS)]

    def put_schema(self, share: str, schema: str) -> Written[Schema]:
        check_name("schema", schema)
        key = items.schema_key(share, schema)

        def change() -> Written[Schema]:
            owner, revision, found = self._open_share(share, key)
            if key in found:
                return Written(items.to_schema(found[key]), "unchanged")
            new = Schema(schema, owner.name)
            self._write_children(share, revision, self._store.create(items.schema_item(new, owner.id)))
            return Written(new, "created")

        return self._retry(change)

    def remove_schema(self, share: str, schema: str, *, cascade: bool = False) -> None:
        key = items.schema_key(share, schema)

        def change() -> None:
            _, revision, found = self._open_share(share, key)
            if key not in found:
                raise _schema_not_found(share, schema)
            tables = self._store.query(items.children_pk(share), items.tables_prefix(schema))
            if tables and not cascade:
                raise EntryInUseError(f"schema '{share}.{schema}' still has tables")
            self._remove_children(share, revision, [*tables, found[key]])

        self._retry(change)

    def tables(self, share: str, schema: str | None = None) -> list[Table]:
        if schema is None:
            self._open_share(share)
            prefix = items.TABLES
        else:
            key = items.schema_key(share, schema)
            if key not in self._open_share(share, key)[2]:
                raise _schema_not_found(share, schema)
            prefix = items.tables_prefix(schema)
        return [items.to_table(item) for item in self._store.query(items.children_pk(share), prefix)]

    def table(self, share: str, schema: str, table: str) -> Table:
        key = items.table_key(share, schema, table)
        item = self._open_share(share, key)[2].get(key)
        if item is None:
            raise _table_not_found(share, schema, table)
        return items.to_table(item)

    def put_table(
        self,
        share: str,
        schema: str,
        table: str,
        *,
        location: str,
        table_id: str | None = None,
        auxiliary_locations: Sequence[str] = (),
        access_modes: Sequence[str] = (URL_ACCESS,),
        history_shared: bool = False,
        start_version: int = 0,
        staleness_seconds: float = 0.0,
        role_arn: str | None = None,
        external_id: str | None = None,
        region: str | None = None,
        kms_key_arn: str | None = None,
    ) -> Written[Table]:
        """Creates or replaces a table. An existing table keeps its id and the spelling of its name.

        An id is unique, except that tables of several shares with the same location may have the same id.
        """
        content = Table(
            name=table,
            schema=schema,
            share=share,
            share_id="",
            id=table_id or new_id(),
            location=location,
            auxiliary_locations=tuple(auxiliary_locations),
            access_modes=tuple(access_modes),
            history_shared=history_shared,
            start_version=start_version,
            staleness_seconds=round(staleness_seconds, 3),
            role_arn=role_arn,
            external_id=external_id,
            region=region,
            kms_key_arn=kms_key_arn,
        )
        check_table(content)
        key, schema_key = items.table_key(share, schema, table), items.schema_key(share, schema)
        id_key = items.table_id_key(content.id)

        def change() -> Written[Table]:
            owner, revision, found = self._open_share(share, schema_key, key, id_key)
            if schema_key not in found:
                raise _schema_not_found(share, schema)
            new = replace(content, share=owner.name, share_id=owner.id, schema=found[schema_key]["name"])
            if key not in found:
                actions = self._store.create(items.table_item(new)), self._claim_id(new, found.get(id_key))
                self._write_children(share, revision, *actions)
                return Written(new, "created")
            old = items.to_table(found[key])
            _require_same_id("table", old.full_name, old.id, table_id)
            new = replace(new, name=old.name, id=old.id)
            if new == old:
                return Written(old, "unchanged")
            self._write_children(share, revision, self._store.put(items.table_item(new)))
            return Written(new, "updated")

        return self._retry(change)

    def remove_table(self, share: str, schema: str, table: str) -> None:
        key = items.table_key(share, schema, table)

        def change() -> None:
            _, revision, found = self._open_share(share, key)
            if key not in found:
                raise _table_not_found(share, schema, table)
            self._remove_children(share, revision, [found[key]])

        self._retry(change)

    def _open_share(self, share: str, *keys: Key) -> tuple[Share, int, dict[Key, Item]]:
        """Returns the share, its revision, and the items with `keys`, in one read."""
        key = items.share_key(share)
        found = self._store.get([key, *keys])
        if key not in found:
            raise EntryNotFoundError(f"share '{share}' does not exist")
        return items.to_share(found[key]), found[key]["revision"], found

    def _write_children(self, share: str, revision: int, *actions: "Action") -> None:
        self._store.write([self._store.raise_revision(items.share_key(share), revision), *actions])

    def _claim_id(self, table: Table, item: Item | None) -> "Action":
        """Adds a new table to the owners of its id. `item` holds the owners so far."""
        if item is None:
            return self._store.create(items.table_id_item(table.id, [table.full_name]))
        owners = items.id_owners(item)
        for found in self._store.get([_key_of(owner) for owner in owners]).values():
            owner = items.to_table(found)
            if owner.share_id == table.share_id or not same_location(owner.location, table.location):
                raise EntryExistsError(f"the id {table.id} belongs to table '{owner.full_name}'")
        return self._store.replace_if(
            items.table_id_item(table.id, [*owners, table.full_name]), items.OWNERS, item[items.OWNERS]
        )

    def _release_id(self, table: Table, item: Item | None) -> "Action":
        """Removes a table from the owners of its id. `item` holds the owners so far."""
        key = items.table_id_key(table.id)
        if item is None:
            return self._store.delete(key)
        others = [owner for owner in items.id_owners(item) if _key_of(owner) != _key_of(table.full_name)]
        if not others:
            return self._store.delete_if(key, items.OWNERS, item[items.OWNERS])
        return self._store.replace_if(items.table_id_item(table.id, others), items.OWNERS, item[items.OWNERS])

    def _remove_children(self, share: str, revision: int, children: Sequence[Item], *, and_share: bool = False) -> None:
        """Uses several transactions if necessary. Removes tables before schemas, so that each leaves a valid state."""
        ids = self._store.get([items.table_id_key(item["id"]) for item in children if _is_table(item)])
        actions: list[Action] = []
        for item in sorted(children, key=_is_table, reverse=True):
            actions.append(self._store.delete(Key(item["pk"], item["sk"])))
            if _is_table(item):
                table = items.to_table(item)
                actions.append(self._release_id(table, ids.get(items.table_id_key(table.id))))
        # Leaves room for the share. The number is even, so a table and its id are in the same transaction.
        step = ACTIONS_PER_WRITE - 2
        while len(actions) > step:
            self._write_children(share, revision, *actions[:step])
            actions, revision = actions[step:], revision + 1
        if and_share:
            self._store.write([*actions, self._store.delete(items.share_key(share), revision)])
        else:
            self._write_children(share, revision, *actions)


def _require_same_id(kind: str, name: str, existing: str, given: str | None) -> None:
    if given not in (None, existing):
        raise EntryExistsError(f"{kind} '{name}' has the id {existing}, which cannot be changed")


def _is_table(item: Item) -> bool:
    return bool(item["sk"].startswith(items.TABLES))


def _key_of(full_name: str) -> Key:
    """The key of a table. Only the name of its share may contain dots."""
    return items.table_key(*full_name.rsplit(".", 2))


def _schema_not_found(share: str, schema: str) -> EntryNotFoundError:
    return EntryNotFoundError(f"schema '{share}.{schema}' does not exist")


def _table_not_found(share: str, schema: str, table: str) -> EntryNotFoundError:
    return EntryNotFoundError(f"table '{share}.{schema}.{table}' does not exist")
