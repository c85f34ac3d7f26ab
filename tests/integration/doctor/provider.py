"""An account whose tables `sluice doctor` examines, and an assertion about its findings."""

from dataclasses import dataclass
from typing import Any

import deltalake
import pyarrow as pa

from cli.embedded.ministack import EmbeddedAws
from core.catalog.admin import CatalogAdmin
from tests.integration.iam import client
from tests.unit.delta import builder

TABLE_CHECKS = ("location", "bucket", "role", "log", "features", "paths", "signed-url", "cross-check")


@dataclass(frozen=True)
class Provider:
    """A provider's account: a catalog, a bucket with a table, and a role that may read it."""

    name: str
    """The name of the bucket, the catalog, the user and the role."""
    aws: EmbeddedAws
    catalog: CatalogAdmin
    role_arn: str
    user_arn: str

    @property
    def owner(self) -> dict[str, str]:
        """The storage options with which the owner of the bucket writes tables."""
        return {
            "AWS_ACCESS_KEY_ID": self.aws.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.aws.secret_access_key,
            "AWS_REGION": self.aws.region,
            "AWS_ENDPOINT_URL": self.aws.endpoint_url,
            "AWS_ALLOW_HTTP": "true",
        }

    def write_table(self, path: str, **options: Any) -> str:
        location = f"s3://{self.name}/{path}"
        deltalake.write_deltalake(location, pa.table({"id": [1, 2, 3]}), storage_options=self.owner, **options)
        return location

    def write_log(self, path: str, *actions: dict[str, Any]) -> str:
        """Writes a log that deltalake cannot write. Returns the location of the table."""
        self.put(f"{path}/{builder.name(0)}", builder.commit(*actions))
        return f"s3://{self.name}/{path}"

    def put(self, key: str, body: bytes) -> None:
        client(self.aws, "s3").put_object(Bucket=self.name, Key=key, Body=body)

    def data_files(self, path: str) -> list[str]:
        listed = client(self.aws, "s3").list_objects_v2(Bucket=self.name, Prefix=f"{path}/part-")
        return [entry["Key"] for entry in listed["Contents"]]

    def add(self, table: str, location: str, **options: Any) -> str:
        self.catalog.put_table("sales", "retail", table, location=location, **options)
        return f"sales.retail.{table}"


def assert_first_failure(findings: dict[str, dict[str, str]], check: str) -> dict[str, str]:
    """Checks that `check` is the first failure and that no later check ran. Returns its finding."""
    position = TABLE_CHECKS.index(check)
    expected = ["passed"] * position + ["failed"] + ["not run"] * (len(TABLE_CHECKS) - position - 1)
    assert [findings[name]["status"] for name in TABLE_CHECKS] == expected, findings
    assert findings[check]["remedy"]
    return findings[check]
