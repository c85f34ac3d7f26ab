"""Which staleness is accepted when a table is opened: the server's, or the table's own if that is more."""

from dataclasses import replace

import boto3
import botocore.session
import pytest

from cli.embedded.ministack import EmbeddedAws
from core.delta.tables import DeltaTables
from core.settings import Settings
from core.sharing.tables import SharedTables
from core.storage.roles import StorageRoles
from core.storage.session import Storage
from tests.unit.delta.builder import PROTOCOL, TableInS3, add, metadata
from tests.unit.sharing.test_directories import TABLE


@pytest.mark.parametrize(
    ("of_server", "of_table", "seen_after_30_seconds"), [(0, 0, 1), (60, 0, 0), (0, 60, 0), (10, 20, 1)]
)
def test_a_version_is_looked_for_again_when_both_the_server_and_the_table_want_it(
    aws: EmbeddedAws, of_server: float, of_table: float, seen_after_30_seconds: int
) -> None:
    clock = [1000.0]
    lake = TableInS3(aws)
    lake.commit(0, PROTOCOL, metadata(), add("a"))
    settings = Settings(storage_role_arn="arn:aws:iam::000000000000:role/unused", region=aws.region)
    storage = Storage(
        StorageRoles(lambda: boto3.client("sts", **aws.client_arguments())), settings, botocore.session.Session()
    )
    tables = SharedTables(storage, DeltaTables(now=lambda: clock[0]), of_server)
    table = replace(TABLE, staleness_seconds=of_table)

    def version() -> int:
        return tables.snapshot(table, lake.storage(), version=None, timestamp=None).version

    assert version() == 0
    lake.commit(1, add("b"))
    clock[0] += 30
    assert version() == seen_after_30_seconds
