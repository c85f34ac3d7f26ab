"""The cross-check: compares a snapshot from our log reader with the same version read by `deltalake`.

It runs when a table is registered, in `sluice doctor` and in tests; no Lambda function imports it. A refusal by
`deltalake` proves little, because it also refuses tables that Spark reads. Messages contain storage paths, so only
providers may see them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from deltalake import DeltaTable

from core.delta.model import Metadata, Protocol
from core.delta.snapshot import Snapshot
from core.storage.endpoint import BucketEndpoint
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from arro3.core import Table

# `deltalake` holds all files of a table in memory: about 2 GB per million files.
MAX_FILES = 1_000_000
SHOWN_FILES = 3
SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CrossCheckResult:
    """The two readers agree if there are no disagreements and no refusal."""

    disagreements: tuple[str, ...] = ()
    refusal: str | None = None
    """Why `deltalake` could not read the table."""


def cross_check(storage: StorageSession, snapshot: Snapshot) -> CrossCheckResult:
    """Compares the two readers. Raises OSError if S3 fails."""
    try:
        table = DeltaTable(
            # deltalake takes a URL, so the prefix is percent-encoded.
            f"s3://{storage.location.bucket}/{quote(storage.location.prefix)}",
            version=snapshot.version,
            storage_options=storage_options(storage),
        )
        theirs = _facts(table.version(), *_read(table))
        files = table.get_add_actions().select(["path", "size_bytes"])
    except (OSError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in Rust is not an Exception
        return CrossCheckResult(refusal=str(error).partition("\n")[0])
    ours = _facts(snapshot.version, snapshot.protocol, snapshot.metadata)
    return CrossCheckResult((*_different_facts(ours, theirs), *_different_files(snapshot, files)))


def storage_options(storage: StorageSession) -> dict[str, str]:
    """Options for `deltalake` to read the table with the session's credentials and endpoint."""
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
        # A person is waiting at a terminal. The default is ten retries within three minutes.
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
    """Returns everything that must be equal, as a flat mapping, so that a message can name what differs."""
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
    """Compares paths and sizes. A path may be live twice, with two deletion vectors."""
    surplus: Counter[tuple[str, int]] = Counter()
    for ours in snapshot.batches(None):
        surplus.update(zip(ours.paths, ours.sizes, strict=True))
    for batch in theirs.to_batches():
        surplus.subtract(zip(batch["path"].to_pylist(), batch["size_bytes"].to_pylist(), strict=True))
    for where, sign in (("only here", 1), ("only in deltalake", -1)):
        if files := [f"{path} ({size} bytes)" for (path, size), count in surplus.items() if count * sign > 0]:
            more = ", …" if len(files) > SHOWN_FILES else ""
            yield f"files live {where}: {len(files)}: {', '.join(files[:SHOWN_FILES])}{more}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
