"""Temporary table credentials: with them a recipient reads the directory of a table by itself."""

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


def answer_credentials(directories: SharedDirectories, table: Table, caller: Caller, asked: str | None) -> Response:
    _require_directory(table)
    location = S3Location.parse(table.location) if asked is None else _location_within(table, asked)
    credentials = directories.credentials(table, caller, location)
    document = {
        "location": table.location if asked is None else asked,
        "awsTempCredentials": {
            "accessKeyId": credentials.access_key_id,
            "secretAccessKey": credentials.secret_access_key,
            "sessionToken": credentials.session_token,
        },
        "expirationTime": int(credentials.expires_at * 1000),
    }
    return json_response({"credentials": document}, headers={"Cache-Control": "no-store"})


def _require_directory(table: Table) -> None:
    """The first text is the reference server's, which knows no access modes."""
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


def _location_within(table: Table, asked: str) -> S3Location:
    """Where the table's own locations are taken as they are written, what is asked for is resolved first."""
    try:
        location = S3Location.parse(asked)
    except InvalidLocationError:
        raise InvalidParameterError(OUTSIDE) from None  # what a recipient sends is not for the log
    roots = [S3Location.parse(root) for root in (table.location, *table.auxiliary_locations)]
    if location in roots:
        return location
    # Resolved; or as it stands, for tables whose own location has doubled slashes. A `..` is only ever resolved.
    literal = [] if {".", ".."} & set(location.prefix.split("/")) else [location]
    for wanted in (location.resolved(), *literal):
        if any(root.covers(wanted) for root in roots):
            return wanted
    raise InvalidParameterError(OUTSIDE)
