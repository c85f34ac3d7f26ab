"""The write side of the catalog, for the command line. Functions that serve recipients do not import it."""

import contextlib

from core.catalog import items
from core.catalog.admin.base import Outcome, Written
from core.catalog.admin.recipients import RecipientAdministration
from core.catalog.admin.shares import ShareAdministration
from core.catalog.errors import EntryNotFoundError
from core.catalog.model import Share

__all__ = ["CatalogAdmin", "Outcome", "Written"]


class CatalogAdmin(ShareAdministration, RecipientAdministration):
    """Raises `CatalogError` for every error except those of AWS."""

    def create_catalog(self) -> None:
        """Creates the DynamoDB table and the signing keys if they do not exist."""
        # Looks first, because an admin of a deployed stack may not create tables.
        try:
            self._client.describe_table(TableName=self._table_name)
        except self._client.exceptions.ResourceNotFoundException:
            with contextlib.suppress(self._client.exceptions.ResourceInUseException):
                self._client.create_table(**items.table_description(self._table_name))
        self._client.get_waiter("table_exists").wait(TableName=self._table_name, WaiterConfig={"Delay": 1})
        ttl = self._client.describe_time_to_live(TableName=self._table_name)["TimeToLiveDescription"]
        if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            self._client.update_time_to_live(
                TableName=self._table_name,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": items.TTL},
            )
        self._ensure_signing_keys()

    def rotate_signing_keys(self) -> None:
        """Adds a signing key and keeps the previous one. Page tokens signed with older keys become invalid."""

        def change() -> None:
            item = self._store.get([items.SIGNING_KEYS])[items.SIGNING_KEYS]
            keys = (self._new_signing_key(), *items.to_signing_keys(item)[:1])
            revision = item["revision"]
            self._store.write([self._store.replace(items.signing_keys_item(keys, revision + 1), revision)])

        self._ensure_signing_keys()
        self._retry(change)

    def remove_share(self, share: str, *, cascade: bool = False) -> Share:
        """Removes a share and its grants; with `cascade`, also its schemas and tables."""
        removed = super().remove_share(share, cascade=cascade)
        # A grant has no effect without its share, so access has already ended.
        for recipient in self.recipients():
            if any(grant.share_id == removed.id for grant in recipient.grants):
                with contextlib.suppress(EntryNotFoundError):
                    self._drop_grants_of(recipient.name, removed.id)
        return removed
