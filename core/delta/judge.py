"""`deltalake` as the judge of a table: another reader opens what ours has read, and both must say the same of it.

It is asked when a table is registered, by `sluice doctor` and in tests; no function imports it. That it cannot read a
table says little, because it refuses some that Spark reads. What it says shows storage paths: for the provider alone.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from deltalake import DeltaTable

from core.delta.snapshot import Metadata, Protocol, Snapshot
from core.storage.endpoint import BucketEndpoint
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from arro3.core import Table

# It holds all files of a table in memory, in about 2 GB for a million.
MAX_FILES = 1_000_000
SHOWN_FILES = 3
SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """On a snapshot: both readers agree unless something is said here."""

    disagreements: tuple[str, ...] = ()
    refusal: str | None = None
    """Why `deltalake` could not read the table."""


def judge(storage: StorageSession, snapshot: Snapshot) -> Verdict:
    """A failure of S3 is no verdict: it surfaces as the OSError that it is."""
    try:
        table = DeltaTable(
            # A URL, where a location has its characters as they are.
            f"s3://{storage.location.bucket}/{quote(storage.location.prefix)}",
            version=snapshot.version,
            storage_options=storage_options(storage),
        )
        theirs = _facts(table.version(), *_read(table))
        files = table.get_add_actions().select(["path", "size_bytes"])
    except (OSError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - also a panic, which is no Exception
        return Verdict(refusal=str(error).partition("\n")[0])
    ours = _facts(snapshot.version, snapshot.protocol, snapshot.metadata)
    return Verdict((*_different_facts(ours, theirs), *_different_files(snapshot, files)))


def storage_options(storage: StorageSession) -> dict[str, str]:
    """With which `deltalake` reaches the table as the session does."""
    endpoint = BucketEndpoint.of(
        storage.location.bucket,
        region=storage.region,
        endpoint_url=storage.endpoint_url,
        path_style=storage.path_style,
    )
    options = {
        "AWS_ACCESS_KEY_ID": storage.credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": storage.credentials.secret_access_key,
        "AWS_REGION": storage.region,
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_ALLOW_HTTP": str(endpoint.url.startswith("http://")).lower(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(endpoint.virtual).lower(),
        # Someone waits at a terminal; the default is ten retries within three minutes.
        "max_retries": "2",
        "retry_timeout": "30s",
    }
    if storage.credentials.session_token is not None:
        options["AWS_SESSION_TOKEN"] = storage.credentials.session_token
    return options


def _read(table: DeltaTable) -> tuple[Protocol, Metadata]:
    protocol, metadata = table.protocol(), table.metadata()
    return (
        Protocol(
            protocol.min_reader_version,
            protocol.min_writer_version,
            tuple(protocol.reader_features or ()),
            tuple(protocol.writer_features or ()),
        ),
        Metadata(
            str(metadata.id),
            table.schema().to_json(),
            tuple(metadata.partition_columns),
            configuration=metadata.configuration,
        ),
    )


def _facts(version: int, protocol: Protocol, metadata: Metadata) -> dict[str, object]:
    """What must be equal, flat, so that what differs can be named."""
    fields = json.loads(metadata.schema_string)["fields"]
    return {
        "version": version,
        "reader version": protocol.min_reader_version,
        "writer version": protocol.min_writer_version,
        "reader features": sorted(protocol.reader_features),
        "writer features": sorted(protocol.writer_features),
        "table id": metadata.id,
        "partition columns": list(metadata.partition_columns),
        "columns": [field["name"] for field in fields],
        **{f"column {field['name']}": field for field in fields},
        **{f"property {name}": value for name, value in metadata.configuration.items()},
    }


def _different_facts(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield f"{name}: {_shown(ours.get(name))} here, {_shown(theirs.get(name))} to deltalake"


def _different_files(snapshot: Snapshot, theirs: "Table") -> Iterator[str]:
    """A file counts with its size. It may be live twice, with two deletion vectors."""
    surplus: Counter[tuple[str, int]] = Counter()
    for ours in snapshot.batches(None):
        surplus.update(zip(ours.paths, ours.sizes, strict=True))
    for batch in theirs.to_batches():
        surplus.subtract(zip(batch["path"].to_pylist(), batch["size_bytes"].to_pylist(), strict=True))
    for described, sign in (("live here alone", 1), ("live to deltalake alone", -1)):
        if files := [f"{path} ({size} bytes)" for (path, size), count in surplus.items() if count * sign > 0]:
            more = ", …" if len(files) > SHOWN_FILES else ""
            yield f"files {described}: {len(files)}: {', '.join(files[:SHOWN_FILES])}{more}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
