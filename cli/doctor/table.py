"""The checks of one table, by the code that will serve it: its role, its log, its files and the URLs of some.

They run with the credentials of the command's caller. The functions assume the same storage role as someone
else: its trust policy must name them too.
"""

import contextlib
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore import exceptions

from cli.common.account import Account
from cli.doctor.checks import CheckFailedError, CheckWarnedError, Finding, NothingToCheckError, run_checks
from cli.doctor.files import live_files, open_data_file, open_file
from core.catalog.model import DIR_ACCESS, Table
from core.delta.features import FEATURES, active_features
from core.delta.tables import DeltaTables
from core.errors import SharingError, TableFilesError, UnsupportedOperationError
from core.storage.location import InvalidLocationError, S3Location
from core.storage.roles import NoStorageRoleError
from core.storage.session import Storage, StorageSession

if TYPE_CHECKING:
    from core.delta.snapshot import Snapshot


class TableChecks:
    def __init__(self, table: Table, account: Account, storage: Storage) -> None:
        self._table = table
        self._account = account
        self._storage = storage
        self._delta = DeltaTables()
        self._roots: list[S3Location]
        """The table's location, and its auxiliary ones."""
        self._session: StorageSession
        self._snapshot: Snapshot
        self._live_files: dict[S3Location, S3Location]
        """One of each root that has any."""

    def run(self) -> Iterator[Finding]:
        """Each check leaves what it opened for the next one. The one that takes longest comes last."""
        checks = [
            ("location", self._check_location),
            ("bucket", self._check_buckets),
            ("role", self._check_role),
            ("log", self._check_log),
            ("features", self._check_features),
            ("paths", self._check_paths),
            ("signed-url", self._check_signed_urls),
            *([("auxiliary", self._check_auxiliary_locations)] if self._table.auxiliary_locations else []),
            ("judge", self._check_judge),
        ]
        return run_checks(self._table.full_name, checks)

    def _check_location(self) -> str:
        try:
            self._roots = [S3Location.parse(root) for root in (self._table.location, *self._table.auxiliary_locations)]
        except InvalidLocationError as error:
            raise CheckFailedError(str(error), "Give the table's folder as s3://bucket/path.") from error
        return ", ".join(root.uri for root in self._roots)

    def _check_buckets(self) -> str:
        settings = self._account.settings
        style = "path" if settings.s3_path_style else "virtual"
        s3 = self._account.client("s3", s3={"addressing_style": style})
        buckets = dict.fromkeys(root.bucket for root in self._roots)
        return ", ".join(f"{bucket} in {self._check_bucket(s3, bucket)}" for bucket in buckets)

    def _check_bucket(self, s3: Any, bucket: str) -> str:
        """Asked as the caller, who may not see the bucket: even a refusal tells that it exists, and where."""
        try:
            answer = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]
        except exceptions.ClientError as error:
            answer = error.response["ResponseMetadata"]
        if answer["HTTPStatusCode"] == HTTPStatus.NOT_FOUND:
            remedy = "Check the spelling, and that the bucket was not deleted."
            raise CheckFailedError(f"the bucket {bucket} does not exist", remedy)
        expected = self._table.region or self._account.settings.region
        region = str(answer["HTTPHeaders"].get("x-amz-bucket-region", expected))
        if region != expected:
            raise CheckFailedError(
                f"the bucket {bucket} is in {region}, but URLs would be signed for {expected}",
                f"Give the table the region {region} (`--bucket-region`, or `region` in the YAML file).",
            )
        return region

    def _check_role(self) -> str:
        table = self._table
        role = table.role_arn or self._account.settings.storage_role_arn
        try:
            self._session = self._storage.open(
                self._roots[0], role_arn=table.role_arn, external_id=table.external_id, region=table.region
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
        try:
            version = self._delta.latest_version(self._session)
            with contextlib.suppress(UnsupportedOperationError):  # the next check's to say
                self._delta.snapshot(self._session)
        except TableFilesError as error:
            raise CheckFailedError(
                f"the log cannot be read: {error.__cause__ or error}",
                "Check that the location is the folder that holds _delta_log, and that the role's policy "
                "allows s3:ListBucket on the bucket and s3:GetObject below it (with kms:Decrypt, if encrypted).",
            ) from error
        if version < self._table.start_version:
            raise CheckFailedError(
                f"the table is at version {version}, its history is shared from {self._table.start_version} on",
                "Give it a smaller start version, or wait for that version: until then nothing of it can be read.",
            )
        if DIR_ACCESS in self._table.access_modes and not self._table.directory_shared:
            raise CheckFailedError(
                "directory access shows the whole log, but the table does not share its whole history",
                "Share the history from version 0 on, or take `dir` out of the table's access modes.",
            )
        return f"version {version}"

    def _check_features(self) -> str:
        snapshot = self._snapshot = self._delta.snapshot(self._session)
        protocol = snapshot.protocol
        has_vectors = snapshot.num_deletion_vectors > 0
        active = sorted(active_features(protocol, snapshot.metadata, deletion_vectors=has_vectors))
        formats = "parquet and delta format" if all(FEATURES[name].plain for name in active) else "delta format only"
        clients = f"clients that read {', '.join(active)}" if active else "every client"
        features = sorted({*protocol.reader_features, *protocol.writer_features})
        return (
            f"reader version {protocol.min_reader_version}, writer version {protocol.min_writer_version}"
            f"{', features ' if features else ''}{', '.join(features)}; can be shared in {formats}, to {clients}; "
            f"files: {snapshot.num_files:,}, bytes: {snapshot.size:,}"
        )

    def _check_paths(self) -> str:
        self._live_files = live_files(self._snapshot, self._roots)
        return ", ".join(root.uri for root in self._live_files) or "the table has no files"

    def _check_signed_urls(self) -> str:
        if not self._live_files:
            raise NothingToCheckError("the table has no files")
        for file in self._live_files.values():
            open_data_file(self._session, file)
        return f"{', '.join(file.uri for file in self._live_files.values())}: opens"

    def _check_auxiliary_locations(self) -> str:
        """Where the table has no live file, there may be those of other versions."""
        others = [root for root in self._roots[1:] if root not in self._live_files]
        empty = [root.uri for root in others if not self._opens_a_file(root)]
        if empty:
            raise CheckWarnedError(f"nothing is in {', '.join(empty)}", "Check the spelling, or take it out.")
        return "can be read"

    def _opens_a_file(self, root: S3Location) -> bool:
        try:
            listed = self._session.objects(root.bucket).list(root.key(""))
            file = next((S3Location(root.bucket, info.key) for info in listed if info.size), None)
        except TableFilesError as error:
            remedy = "Let the role's policy allow s3:ListBucket on the bucket and s3:GetObject below the location."
            raise CheckFailedError(f"{root.uri} cannot be read: {error.__cause__ or error}", remedy) from error
        if file:
            open_file(self._session, file)
        return file is not None

    def _check_judge(self) -> str:
        """Asks `deltalake`, which refuses some tables that Spark and this server read."""
        from core.delta.cross_check import MAX_FILES, cross_check

        files = self._snapshot.num_files
        if files > MAX_FILES:
            raise NothingToCheckError(f"deltalake would need too much memory for {files:,} files")
        try:
            verdict = cross_check(self._session, self._snapshot)
        except OSError as error:
            raise CheckWarnedError(
                f"deltalake cannot reach the table: {str(error).partition(chr(10))[0]}",
                "This server can. If it is no passing trouble, see which proxy or certificate deltalake needs.",
            ) from error
        if verdict.disagreements:
            raise CheckFailedError(
                f"deltalake reads another table than this server: {'; '.join(verdict.disagreements)}",
                "One of the two is wrong, and recipients could get wrong rows: report it, with the table's log.",
            )
        if verdict.refusal:
            raise CheckWarnedError(
                f"deltalake cannot read the table: {verdict.refusal}",
                "This server can. Recipients whose engine is built on deltalake may not: try with theirs.",
            )
        return f"deltalake reads the same; files: {files:,}"


def check_tables(tables: Iterable[Table], account: Account) -> Iterator[Finding]:
    storage = account.storage()
    for table in tables:
        yield from TableChecks(table, account, storage).run()
