"""Shared tables at the version that a request names, and the rules for how much history a recipient may see."""

from dataclasses import dataclass

from core.api.timestamps import parse_timestamp
from core.catalog.model import URL_ACCESS, Table
from core.delta.history import BeforeHistoryError, use_later
from core.delta.snapshot import Snapshot
from core.delta.source import ALL_FILES, Demand
from core.delta.tables import DeltaTables
from core.errors import InvalidParameterError, UnsupportedOperationError
from core.storage.location import S3Location
from core.storage.session import Storage, StorageSession


@dataclass(frozen=True, slots=True)
class SharedTables:
    storage: Storage
    delta: DeltaTables
    staleness_seconds: float = 0.0

    def open(self, table: Table) -> StorageSession:
        return self.storage.open(
            S3Location.parse(table.location),
            role_arn=table.role_arn,
            external_id=table.external_id,
            region=table.region,
        )

    def version(self, table: Table, starting_timestamp: str | None) -> int:
        """Returns the latest version, or the earliest version at or after a timestamp."""
        if starting_timestamp is None:
            return self.delta.latest_version(self.open(table), staleness_seconds=self._staleness(table))
        require_history(table)
        timestamp = parse_timestamp(starting_timestamp, field="startingTimestamp")
        try:
            return self.delta.version_at_or_after(self.open(table), timestamp, table.start_version)
        except BeforeHistoryError as error:
            # The text begins like the reference server's, but does not name the version before the start version.
            raise InvalidParameterError(
                f"You can only query table data since version {table.start_version}."
                f"The provided timestamp({starting_timestamp}) is before the earliest available version "
                f"{error.version}.{use_later(error.edge_ms)}"
            ) from None

    def snapshot(
        self,
        table: Table,
        storage: StorageSession,
        *,
        version: int | None,
        timestamp: str | None,
        max_log_bytes: float | None = None,
        demand: Demand = ALL_FILES,
    ) -> Snapshot:
        """Raises `LongLogError` if more than `max_log_bytes` of the log would have to be read."""
        if version is not None or timestamp is not None:
            require_history(table)
        if version is not None:
            require_started(table, version)
        try:
            snapshot = self.delta.snapshot(
                storage,
                version=version,
                timestamp_ms=None if timestamp is None else parse_timestamp(timestamp, field="timestamp"),
                since_version=table.start_version,
                staleness_seconds=self._staleness(table),
                max_log_bytes=max_log_bytes,
                demand=demand,
            )
        except BeforeHistoryError as error:
            if error.version == table.start_version > 0:
                raise InvalidParameterError(f"{not_started(table)} {error.message}") from None
            raise
        require_started(table, snapshot.version)
        return snapshot

    def _staleness(self, table: Table) -> float:
        return max(table.staleness_seconds, self.staleness_seconds)


def require_urls(table: Table) -> None:
    if URL_ACCESS not in table.access_modes:
        raise UnsupportedOperationError(f"The table {table.full_name} is shared by directory access only.")


def require_history(table: Table) -> None:
    if not table.history_shared:
        raise InvalidParameterError(
            "Reading table by version or timestamp is not supported because history sharing is not enabled on table: "
            f"{table.full_name}"
        )


def require_started(table: Table, version: int) -> None:
    if version < table.start_version:
        raise InvalidParameterError(not_started(table))


def not_started(table: Table) -> str:
    return f"You can only query table data since version {table.start_version}."
