"""The checks of one table, by the code that will serve it: its role, its log, and one of its URLs.

They run with the credentials of the command's caller. The functions assume the same storage role as someone
else: its trust policy must name them too.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from cli.account import Account
from cli.doctor.checks import CheckFailedError, Finding, NothingToCheckError, run_checks
from core.catalog.model import DIR_ACCESS, Table
from core.delta.paths import object_key
from core.delta.reader import judge
from core.delta.tables import DeltaTables
from core.errors import SharingError
from core.storage.location import InvalidLocationError, S3Location
from core.storage.roles import NoStorageRoleError
from core.storage.session import Storage, StorageSession

if TYPE_CHECKING:
    from core.delta.snapshot import Snapshot

PARQUET_MAGIC = b"PAR1"


class TableChecks:
    def __init__(self, table: Table, account: Account, storage: Storage) -> None:
        self._table = table
        self._account = account
        self._storage = storage
        self._delta = DeltaTables()
        self._location: S3Location
        self._session: StorageSession
        self._snapshot: Snapshot

    def run(self) -> Iterator[Finding]:
        """Each check leaves what it opened for the next one."""
        checks = [
            ("location", self._check_location),
            ("bucket", self._check_bucket),
            ("role", self._check_role),
            ("log", self._check_log),
            ("features", self._check_features),
            ("signed-url", self._check_signed_url),
        ]
        return run_checks(self._table.full_name, checks)

    def _check_location(self) -> str:
        try:
            self._location = S3Location.parse(self._table.location)
        except InvalidLocationError as error:
            raise CheckFailedError(str(error), "Give the table's folder as s3://bucket/path.") from error
        return self._location.uri

    def _check_bucket(self) -> str:
        """Asked as the caller, who may not see the bucket: even a refusal tells that it exists, and where."""
        settings = self._account.settings
        style = "path" if settings.s3_path_style else "virtual"
        s3 = self._account.client("s3", s3={"addressing_style": style})
        bucket = self._location.bucket
        try:
            answer = s3.head_bucket(Bucket=bucket)
        except exceptions.ClientError as error:
            answer = error.response
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        if status == HTTPStatus.NOT_FOUND:
            remedy = "Check the spelling, and that the bucket was not deleted."
            raise CheckFailedError(f"the bucket {bucket} does not exist", remedy)
        expected = self._table.region or settings.region
        region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", expected)
        if region != expected:
            raise CheckFailedError(
                f"the bucket {bucket} is in {region}, but URLs would be signed for {expected}",
                f"Give the table the region {region} (`--bucket-region`, or `region` in the YAML file).",
            )
        return f"{bucket} in {region}"

    def _check_role(self) -> str:
        table = self._table
        role = table.role_arn or self._account.settings.storage_role_arn
        try:
            self._session = self._storage.open(
                self._location, role_arn=table.role_arn, external_id=table.external_id, region=table.region
            )
        except NoStorageRoleError as error:
            remedy = "Set SLUICE_STORAGE_ROLE_ARN as the functions have it, or give the table a role of its own."
            raise CheckFailedError("no storage role is set", remedy) from error
        except SharingError as error:
            raise CheckFailedError(
                f"the role {role} cannot be assumed: {error.__cause__ or error}",
                "Let the role's trust policy name your identity and that of the functions, with the external "
                "id, and allow sts:AssumeRole on it to both.",
            ) from error
        return f"assumed {role}"

    def _check_log(self) -> str:
        """By the server's own listing, whose errors are clearer, then by `deltalake` as the judge."""
        try:
            self._delta.latest_version(self._session)
            table = judge(self._session)
            protocol = table.protocol()
        except (SharingError, OSError) as error:
            raise CheckFailedError(
                f"the log cannot be read: {str(error.__cause__ or error).partition(chr(10))[0]}",
                "Check that the location is the folder that holds _delta_log, and that the role's policy "
                "allows s3:ListBucket on the bucket and s3:GetObject below it (with kms:Decrypt, if encrypted).",
            ) from error
        if table.version() < self._table.start_version:
            raise CheckFailedError(
                f"the table is at version {table.version()}, its history is shared from {self._table.start_version} on",
                "Give it a smaller start version, or wait for that version: until then nothing of it can be read.",
            )
        if DIR_ACCESS in self._table.access_modes and not self._table.directory_shared:
            raise CheckFailedError(
                "directory access shows the whole log, but the table does not share its whole history",
                "Share the history from version 0 on, or take `dir` out of the table's access modes.",
            )
        features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
        described = f", features {', '.join(features)}" if features else ""
        return (
            f"version {table.version()}, reader version {protocol.min_reader_version}, "
            f"writer version {protocol.min_writer_version}{described}"
        )

    def _check_features(self) -> str:
        self._snapshot = self._delta.snapshot(self._session)
        return f"can be shared; files: {self._snapshot.num_files:,}, bytes: {self._snapshot.size:,}"

    def _check_signed_url(self) -> str:
        add = next(self._snapshot.adds(), None)
        if add is None:
            raise NothingToCheckError("the table has no files")
        key = object_key(self._location, add.path)
        url = self._session.signer().sign(key)
        try:
            answer = URLLib3Session().send(AWSRequest("GET", url, headers={"Range": "bytes=0-3"}).prepare())
        except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:  # its text would show the whole URL
            remedy = "Check the network and its proxies: recipients need a way to this host."
            raise CheckFailedError(f"{urlsplit(url).netloc} cannot be reached", remedy) from error
        if answer.status_code == HTTPStatus.NOT_FOUND:
            remedy = "The log names a file that is gone: restore it, or the table (was it vacuumed or moved?)."
            raise CheckFailedError(f"{key} does not exist", remedy)
        if answer.status_code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise CheckFailedError(
                f"the signed URL of {key} answers {answer.status_code}",
                "Let the role's policy allow s3:GetObject below the table's location (with kms:Decrypt, if "
                "encrypted), and look for a bucket policy that forbids access from here.",
            )
        if answer.content[:4] != PARQUET_MAGIC:
            raise CheckFailedError(f"{key} is not a Parquet file", "Restore the file: something overwrote it.")
        return f"{key} opens"


def check_tables(tables: Iterable[Table], account: Account) -> Iterator[Finding]:
    storage = account.storage()
    for table in tables:
        yield from TableChecks(table, account, storage).run()
