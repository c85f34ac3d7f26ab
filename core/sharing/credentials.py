"""Answers requests for temporary table credentials, with which a recipient reads a table's directory directly."""

from dataclasses import dataclass

from core.api.response import Response, json_response
from core.catalog.model import DIR_ACCESS, Table
from core.catalog.reader import Caller
from core.errors import InvalidParameterError
from core.settings import Settings
from core.storage.location import InvalidLocationError, S3Location
from core.storage.roles import Credentials, StorageRole
from core.storage.vending import DirectoryCredentials, DirectoryReader

OUTSIDE = "The requested location must be the same as or under this table's configured storage location."


@dataclass(frozen=True, slots=True)
class SharedDirectories:
    settings: Settings
    vending: DirectoryCredentials

    def credentials(self, table: Table, caller: Caller, location: S3Location) -> Credentials:
        return self.vending.credentials(
            DirectoryReader(
                recipient_id=caller.id,
                recipient=caller.name,
                table_id=table.id,
                table=table.full_name,
                location=location,
                role=StorageRole.of(self.settings, table.role_arn, table.external_id),
                kms_key_arn=table.kms_key_arn,
            )
        )


def answer_credentials(directories: SharedDirectories, table: Table, caller: Caller, requested: str | None) -> Response:
    _require_directory(table)
    location = S3Location.parse(table.location) if requested is None else _location_within(table, requested)
    credentials = directories.credentials(table, caller, location)
    document = {
        "location": table.location if requested is None else requested,
        "awsTempCredentials": {
            "accessKeyId": credentials.access_key_id,
            "secretAccessKey": credentials.secret_access_key,
            "sessionToken": credentials.session_token,
        },
        "expirationTime": int(credentials.expires_at * 1000),
    }
    return json_response({"credentials": document}, headers={"Cache-Control": "no-store"})


def _require_directory(table: Table) -> None:
    """The first message matches the reference server, which has no access modes."""
    if table.directory_shared:
        return
    if not table.history_shared:
        reason = "history sharing is not enabled"
    elif DIR_ACCESS not in table.access_modes:
        reason = "directory access is not enabled"
    else:
        reason = "only a part of the history is shared"
    raise InvalidParameterError(
        f"Temporary table credentials are not supported because {reason} on table: {table.full_name}"
    )


def _location_within(table: Table, requested: str) -> S3Location:
    """Returns the requested location. Resolves `.`, `..` and `//`, unless it equals one of the table's locations."""
    try:
        location = S3Location.parse(requested)
    except InvalidLocationError:
        raise InvalidParameterError(OUTSIDE) from None  # keeps the recipient's input out of the log
    roots = [S3Location.parse(root) for root in (table.location, *table.auxiliary_locations)]
    if location in roots:
        return location
    # Also try the location as written, for tables whose own location contains double slashes. Always resolve `..`.
    as_written = [] if {".", ".."} & set(location.prefix.split("/")) else [location]
    for candidate in (location.resolved(), *as_written):
        if any(root.covers(candidate) for root in roots):
            return candidate
    raise InvalidParameterError(OUTSIDE)
