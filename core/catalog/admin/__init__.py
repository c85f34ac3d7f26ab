"""The catalog as its owner changes it: for the command line, never for a function that serves recipients."""

import contextlib

from core.catalog import items
from core.catalog.admin.base import Outcome, Written
from core.catalog.admin.recipients import RecipientAdministration
from core.catalog.admin.shares import ShareAdministration
from core.catalog.errors import EntryNotFoundError
from core.catalog.model import Share

__all__ = ["CatalogAdmin", "Outcome", "Written"]


class CatalogAdmin(ShareAdministration, RecipientAdministration):
    """Every error is a `CatalogError`, except those of AWS itself."""

    def create_catalog(self) -> None:
        """The DynamoDB table and the signing keys, unless they are there."""
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
        """Page tokens that the key before has signed stay good; those of the one before that do not."""

        def change() -> None:
            item = self._store.get([items.SIGNING_KEYS])[items.SIGNING_KEYS]
            keys = (self._new_signing_key(), *items.to_signing_keys(item)[:1])
            revision = item["revision"]
            self._store.write([self._store.replace(items.signing_keys_item(keys, revision + 1), revision)])

        self._ensure_signing_keys()
        self._retry(change)

    def remove_share(self, share: str, *, cascade: bool = False) -> Share:
        """With its grants, and with its schemas and tables if `cascade` says so."""
        removed = super().remove_share(share, cascade=cascade)
        # Without its share a grant has no effect, so nothing is open while this goes on.
        for recipient in self.recipients():
            if any(grant.share_id == removed.id for grant in recipient.grants):
                with contextlib.suppress(EntryNotFoundError):
                    self._drop_grants_of(recipient.name, removed.id)
        return removed
