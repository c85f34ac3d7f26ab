"""Validates entries before they are written, so that readers can rely on them."""

import math
import re

from core.catalog import names
from core.catalog.errors import InvalidEntryError
from core.catalog.model import DIR_ACCESS, URL_ACCESS, Share, Table

MAX_PROPERTIES = 50
DAY_SECONDS = 24 * 3600
MAX_TOKEN_SECONDS = 10 * 365 * DAY_SECONDS
MAX_STALENESS_SECONDS = 24 * 3600

# Exactly one key: the ARN is copied into the session policy of vended credentials, where `*` would match any key.
KMS_KEY_ARN = re.compile(r"arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+", re.ASCII)
_ID = re.compile(r"[!-~]{1,128}")
_S3_SCHEME = re.compile(r"s3[an]?://", re.IGNORECASE)


def check_name(kind: names.Kind, name: str) -> None:
    if problem := names.problem(kind, name):
        raise InvalidEntryError(f"the name of a {kind} {problem}: {name!a}")


def check_id(entry_id: str) -> None:
    if not _ID.fullmatch(entry_id):
        raise InvalidEntryError(f"an id must be 1 to 128 ASCII characters without white space: {entry_id!a}")


def check_texts(**texts: str | None) -> None:
    for name, text in texts.items():
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise InvalidEntryError(f"{name} is not valid Unicode: {text!a}") from None


def check_share(share: Share) -> None:
    check_name("share", share.name)
    check_id(share.id)
    check_texts(display_name=share.display_name, comment=share.comment)
    if len(share.properties) > MAX_PROPERTIES:
        raise InvalidEntryError(f"a share can have at most {MAX_PROPERTIES} properties, not {len(share.properties)}")
    for name, value in share.properties.items():
        check_texts(**{f"property {name!a}": name + value})


def same_location(one: str, other: str) -> bool:
    """Whether two S3 locations are the same directory, whatever the scheme (`s3`, `s3a`, `s3n`) and a last slash."""
    return _directory(one) == _directory(other)


def _directory(location: str) -> str:
    return _S3_SCHEME.sub("s3://", location).rstrip("/")


def check_table(table: Table) -> None:
    check_name("table", table.name)
    check_id(table.id)
    locations = {f"auxiliary location {number}": text for number, text in enumerate(table.auxiliary_locations, 1)}
    check_texts(
        location=table.location,
        role=table.role_arn,
        external_id=table.external_id,
        region=table.region,
        kms_key=table.kms_key_arn,
        **locations,
    )
    if table.kms_key_arn is not None and not KMS_KEY_ARN.fullmatch(table.kms_key_arn):
        raise InvalidEntryError(f"not the ARN of a KMS key: {table.kms_key_arn!a}")
    if not table.location:
        raise InvalidEntryError("a table must have a location")
    if not table.access_modes or not set(table.access_modes) <= {URL_ACCESS, DIR_ACCESS}:
        raise InvalidEntryError(f"access modes must be '{URL_ACCESS}', '{DIR_ACCESS}' or both: {table.access_modes!a}")
    if not 0 <= table.start_version < 2**63:
        raise InvalidEntryError(f"the start version must be 0 to {2**63 - 1}: {table.start_version}")
    if not (math.isfinite(table.staleness_seconds) and 0 <= table.staleness_seconds <= MAX_STALENESS_SECONDS):
        raise InvalidEntryError(
            f"the staleness must be 0 to {MAX_STALENESS_SECONDS} seconds: {table.staleness_seconds}"
        )


def check_lifetime(seconds: int, *, longest: int) -> None:
    if not 0 < seconds <= longest:
        raise InvalidEntryError(
            f"a token lives for 1 second to {_duration(longest)}, not {_duration(seconds)}: "
            "choose another lifetime, or change the maximum (SLUICE_MAX_TOKEN_DAYS)"
        )


def check_grace(seconds: int) -> None:
    if not 0 <= seconds <= MAX_TOKEN_SECONDS:
        raise InvalidEntryError(f"a grace period must be 0 to {MAX_TOKEN_SECONDS} seconds, not {seconds}")


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, DAY_SECONDS)
    return f"{seconds} seconds" if rest else f"{days} days"
