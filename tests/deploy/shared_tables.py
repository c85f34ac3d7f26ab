"""Shares the table that the sample events name, and a table with too many files for one answer."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from cli.embedded.mirror import Mirror
from core.catalog.admin import CatalogAdmin
from tests import tables

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Their listing is over 6 MB even when gzipped.
MANY_FILES = 80_000


def trips() -> pa.Table:
    days = [dt.date(2024, 12, 31), dt.date(2025, 1, 1), dt.date(2025, 1, 2)]
    return pa.table({"date": days * 2, "id": range(6)})


def share_trips(admin: CatalogAdmin, s3: "S3Client", bucket: str, folder: Path) -> str:
    """Shares `trips`, which has a checkpoint, and `many` in `sales.public`. Returns the token of a recipient."""
    change_feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(folder / "trips", trips(), partition_by=["date"], configuration=change_feed)
    DeltaTable(folder / "trips").create_checkpoint()
    tables.many_files(folder / "many", MANY_FILES)
    mirror = Mirror(s3, bucket)
    admin.put_share("sales")
    admin.put_schema("sales", "public")
    for name in ("trips", "many"):
        location = mirror.add(folder / name)
        modes = ("url", "dir")
        admin.put_table("sales", "public", name, location=location, access_modes=modes, history_shared=True)
    admin.put_recipient("reader")
    admin.grant("reader", "sales")
    return admin.issue_token("reader", lifetime_seconds=3600)[1]
