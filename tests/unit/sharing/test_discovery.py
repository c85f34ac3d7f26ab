"""Shares, schemas and tables as JSON documents."""

from core.catalog.model import Table
from core.sharing.discovery import table_document, table_item

TABLE = Table("trips", "core", "sales", "share-id", "table-id", "s3://bucket/trips")
SHARED_DIRECTORY = Table(
    "trips",
    "core",
    "sales",
    "share-id",
    "table-id",
    "s3://bucket/trips",
    access_modes=("url", "dir"),
    history_shared=True,
)


def test_a_single_table_is_a_flat_document_with_its_format() -> None:
    assert table_document(TABLE) == {
        "name": "trips",
        "schema": "core",
        "share": "sales",
        "shareId": "share-id",
        "id": "table-id",
        "format": "delta",
    }


def test_a_single_table_shows_its_directory_if_it_is_shared() -> None:
    assert table_document(SHARED_DIRECTORY) == {
        **table_document(TABLE),
        "location": "s3://bucket/trips",
        "accessModes": ["url", "dir"],
    }


def test_a_table_in_a_listing_has_no_format() -> None:
    assert "format" not in table_item(TABLE)
