"""A snapshot may be as stale as the server or the table allows, whichever is more."""

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
    ("server_seconds", "table_seconds", "version_after_30_seconds"), [(0, 0, 1), (60, 0, 0), (0, 60, 0), (10, 20, 1)]
)
def test_the_log_is_listed_again_when_both_staleness_limits_have_passed(
    aws: EmbeddedAws, server_seconds: float, table_seconds: float, version_after_30_seconds: int
) -> None:
    clock = [1000.0]
    lake = TableInS3(aws)
    lake.commit(0, PROTOCOL, metadata(), add("a"))
    settings = Settings(storage_role_arn="arn:aws:iam::000000000000:role/unused", region=aws.region)
    storage = Storage(
        StorageRoles(lambda: boto3.client("sts", **aws.client_arguments())), settings, botocore.session.Session()
    )
    tables = SharedTables(storage, DeltaTables(now=lambda: clock[0]), server_seconds)
    table = replace(TABLE, staleness_seconds=table_seconds)

    def version() -> int:
        return tables.snapshot(table, lake.storage(), version=None, timestamp=None).version

    assert version() == 0
    lake.commit(1, add("b"))
    clock[0] += 30
    assert version() == version_after_30_seconds
