"""Shares, schemas and tables as the protocol lists them."""

from collections.abc import Callable
from typing import Any, TypeVar

from core.api.paging import Listing
from core.api.response import Response, json_response
from core.catalog.model import Schema, Share, Table

Entry = TypeVar("Entry")

TABLE_FORMAT = "delta"


def share_item(share: Share) -> dict[str, Any]:
    item: dict[str, Any] = {"name": share.name, "id": share.id}
    if share.display_name is not None:
        item["displayName"] = share.display_name
    if share.comment is not None:
        item["comment"] = share.comment
    if share.properties:
        item["properties"] = dict(share.properties)
    return item


def schema_item(schema: Schema) -> dict[str, Any]:
    return {"name": schema.name, "share": schema.share}


def table_item(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "schema": table.schema,
        "share": table.share,
        "shareId": table.share_id,
        "id": table.id,
        **directory_fields(table),
    }


def table_document(table: Table) -> dict[str, Any]:
    """Returns the answer of the route that gets one table. Unlike a listing, it names the format of the table."""
    return {**table_item(table), "format": TABLE_FORMAT}


def directory_fields(table: Table) -> dict[str, Any]:
    """Fields for clients that can use directory access. Empty if the table does not share its directory."""
    if not table.directory_shared:
        return {}
    fields: dict[str, Any] = {"location": table.location, "accessModes": list(table.access_modes)}
    if table.auxiliary_locations:
        fields["auxiliaryLocations"] = list(table.auxiliary_locations)
    return fields


def listing_response(listing: Listing[Entry], item: Callable[[Entry], dict[str, Any]]) -> Response:
    document: dict[str, Any] = {"items": [item(entry) for entry in listing.items]}
    if listing.next_page_token is not None:
        document["nextPageToken"] = listing.next_page_token
    return json_response(document)
