"""Checks one table with the code that serves it: its role, its log and some of its files.

The checks assume the storage role with the caller's credentials, the functions with their own. The trust policy of the
role must name both.
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
        """The location and the auxiliary locations."""
        self._session: StorageSession
        self._snapshot: Snapshot
        self._live_files: dict[S3Location, S3Location]
        """One file of each root that has live files."""

    def run(self) -> Iterator[Finding]:
        """Runs the checks in order. Each one sets the attributes that later ones use; the slowest is last."""
        checks = [
            ("location", self._check_location),
            ("bucket", self._check_buckets),
            ("role", self._check_role),
            ("log", self._check_log),
            ("features", self._check_features),
            ("paths", self._check_paths),
            ("signed-url", self._check_signed_urls),
            *([("auxiliary", self._check_auxiliary_locations)] if self._table.auxiliary_locations else []),
            ("cross-check", self._cross_check),
        ]
        return run_checks(self._table.full_name, checks)

    def _check_location(self) -> str:
        try:
            self._roots = [S3Location.parse(root) for root in (self._table.location, *self._table.auxiliary_locations)]
        except InvalidLocationError as error:
            raise CheckFailedError(
                str(error), "Set the location to the table's folder, as s3://bucket/path."
            ) from error
        return ", ".join(root.uri for root in self._roots)

    def _check_buckets(self) -> str:
        settings = self._account.settings
        style = "path" if settings.s3_path_style else "virtual"
        s3 = self._account.client("s3", s3={"addressing_style": style})
        buckets = dict.fromkeys(root.bucket for root in self._roots)
        return ", ".join(f"{bucket} in {self._check_bucket(s3, bucket)}" for bucket in buckets)

    def _check_bucket(self, s3: Any, bucket: str) -> str:
        """Returns the region of a bucket. S3 reports it even to a caller without access to the bucket."""
        try:
            response = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]
        except exceptions.ClientError as error:
            response = error.response["ResponseMetadata"]
        if response["HTTPStatusCode"] == HTTPStatus.NOT_FOUND:
            remedy = "Check the spelling of the bucket, and that it was not deleted."
            raise CheckFailedError(f"the bucket {bucket} does not exist", remedy)
        expected = self._table.region or self._account.settings.region
        region = str(response["HTTPHeaders"].get("x-amz-bucket-region", expected))
        if region != expected:
            raise CheckFailedError(
                f"the bucket {bucket} is in {region}, but URLs would be signed for {expected}",
                f"Set the region of the table to {region} (`--bucket-region`, or `region` in the YAML file).",
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
            remedy = "Set SLUICE_STORAGE_ROLE_ARN to the server's storage role, or use `--role-arn` for the table."
            raise CheckFailedError("no storage role is set", remedy) from error
        except SharingError as error:
            raise CheckFailedError(
                f"the role {role} cannot be assumed: {error.__cause__ or error}",
                "Name your identity and the functions' role in the trust policy of the role, with the external id, and "
                "allow both to call sts:AssumeRole on it.",
            ) from error
        return f"assumed {role}"

    def _check_log(self) -> str:
        try:
            version = self._delta.latest_version(self._session)
            with contextlib.suppress(UnsupportedOperationError):  # the next check reports it
                self._delta.snapshot(self._session)
        except TableFilesError as error:
            raise CheckFailedError(
                f"the log cannot be read: {error.__cause__ or error}",
                "Check that the location is the folder that contains _delta_log, and that the role's policy allows "
                "s3:ListBucket on the bucket and s3:GetObject on its objects (and kms:Decrypt if they are encrypted).",
            ) from error
        if version < self._table.start_version:
            raise CheckFailedError(
                f"the table is at version {version}, but shares its history from version {self._table.start_version}",
                "Set a lower start version, or wait for that version. Until then, recipients cannot read the table.",
            )
        if DIR_ACCESS in self._table.access_modes and not self._table.directory_shared:
            raise CheckFailedError(
                "directory access exposes the whole log, but the table does not share its whole history",
                "Share the history from version 0, or remove `dir` from the access modes of the table.",
            )
        return f"version {version}"

    def _check_features(self) -> str:
        snapshot = self._snapshot = self._delta.snapshot(self._session)
        protocol = snapshot.protocol
        has_vectors = snapshot.num_deletion_vectors > 0
        active = sorted(active_features(protocol, snapshot.metadata, deletion_vectors=has_vectors))
        formats = (
            "parquet and delta format"
            if all(FEATURES[name].readable_as_parquet for name in active)
            else "delta format only"
        )
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
        """Checks the locations without live files. They may have files of other versions."""
        others = [root for root in self._roots[1:] if root not in self._live_files]
        empty = [root.uri for root in others if not self._opens_a_file(root)]
        if empty:
            raise CheckWarnedError(f"no files in {', '.join(empty)}", "Check the spelling, or remove the location.")
        return "can be read"

    def _opens_a_file(self, root: S3Location) -> bool:
        try:
            listed = self._session.objects(root.bucket).list(root.key(""))
            file = next((S3Location(root.bucket, info.key) for info in listed if info.size), None)
        except TableFilesError as error:
            remedy = "Allow s3:ListBucket on the bucket and s3:GetObject below the location in the role's policy."
            raise CheckFailedError(f"{root.uri} cannot be read: {error.__cause__ or error}", remedy) from error
        if file:
            open_file(self._session, file)
        return file is not None

    def _cross_check(self) -> str:
        """Warns if `deltalake` cannot read the table: it refuses some tables that Spark and this server read."""
        from core.delta.cross_check import MAX_FILES, cross_check

        files = self._snapshot.num_files
        if files > MAX_FILES:
            raise NothingToCheckError(f"deltalake would need too much memory for {files:,} files")
        try:
            result = cross_check(self._session, self._snapshot)
        except OSError as error:
            raise CheckWarnedError(
                f"deltalake cannot reach the table: {str(error).partition(chr(10))[0]}",
                "This server can. If the failure persists, check the proxies and certificates that deltalake uses.",
            ) from error
        if result.disagreements:
            raise CheckFailedError(
                f"deltalake and this server read different tables: {'; '.join(result.disagreements)}",
                "One of them is wrong, and recipients could get wrong rows. Report this, with the log of the table.",
            )
        if result.refusal:
            raise CheckWarnedError(
                f"deltalake cannot read the table: {result.refusal}",
                "This server can. Recipients with an engine that is built on deltalake may not: test with theirs.",
            )
        return f"deltalake reads the same table; files: {files:,}"


def check_tables(tables: Iterable[Table], account: Account) -> Iterator[Finding]:
    storage = account.storage()
    for table in tables:
        yield from TableChecks(table, account, storage).run()
