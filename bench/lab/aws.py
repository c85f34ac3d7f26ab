"""An embedded AWS with tables that are shared with one recipient."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cli.embedded.ministack import EmbeddedAws, embedded_aws
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from bench.tables import Shape

SHARE, SCHEMA, RECIPIENT = "bench", "trips", "client"
TOKEN_SECONDS = 86_400
TOKEN_VARIABLE = "BENCH_TOKEN"


@dataclass(frozen=True, slots=True)
class Lab:
    aws: EmbeddedAws
    s3: "S3Client" = field(repr=False)
    """A client with the owner's credentials."""
    token: str = field(repr=False)
    environment: dict[str, str] = field(repr=False)
    """The environment of the functions, plus the recipient's token for the cases."""

    def share_table(self, table: str, files: int, shape: "Shape | None" = None) -> None:
        # Imported here because it loads pyarrow, and processes that import this module have their memory measured.
        from bench.tables import CLASSIC, write_table

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            write_table(folder, files, shape or CLASSIC)
            for path in filter(Path.is_file, folder.rglob("*")):
                with path.open("rb") as content:
                    self.s3.put_object(Bucket=DATA_BUCKET, Key=f"{table}/{path.relative_to(folder)}", Body=content)
        catalog_admin(self.aws).put_table(SHARE, SCHEMA, table, location=f"s3://{DATA_BUCKET}/{table}")

    @property
    def owner(self) -> dict[str, str]:
        """Environment variables with the owner's credentials, which have full access."""
        arguments = self.aws.client_arguments()
        return {
            "AWS_ACCESS_KEY_ID": arguments["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": arguments["aws_secret_access_key"],
        }

    def put(self, table: str, name: str, content: bytes) -> None:
        self.s3.put_object(Bucket=DATA_BUCKET, Key=f"{table}/{name}", Body=content)

    def upload_url(self, table: str, name: str) -> str:
        """Return a URL to which a case can upload one object of a table."""
        arguments = {"Bucket": DATA_BUCKET, "Key": f"{table}/{name}"}
        return self.s3.generate_presigned_url("put_object", Params=arguments)


@contextlib.contextmanager
def running_lab() -> Iterator[Lab]:
    with embedded_aws() as aws:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SLUICE_"))}
        functions = set_up(aws)
        admin = catalog_admin(aws)
        admin.put_share(SHARE)
        admin.put_schema(SHARE, SCHEMA)
        admin.put_recipient(RECIPIENT)
        admin.grant(RECIPIENT, SHARE)
        _, token = admin.issue_token(RECIPIENT, lifetime_seconds=TOKEN_SECONDS)
        yield Lab(aws, s3_client(aws), token, inherited | functions | {TOKEN_VARIABLE: token})
