"""The Delta reader features that this server supports, and what each requires from a client.

A feature is *active* in a snapshot if it changes how files must be read; a protocol may also list features that are not
active. An answer in delta format lists the active features in its protocol, so a client that does not know one can
refuse the table. A client must name a feature in its request if it would otherwise read wrong rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from core.delta.model import Metadata, Protocol
from core.errors import DamagedLogError, UnsupportedOperationError

DELETION_VECTORS = "deletionVectors"
COLUMN_MAPPING = "columnMapping"
CHANGE_FEED_PROPERTY = "delta.enableChangeDataFeed"

MAX_READER_VERSION = 3
MAPPING_VERSION = 2
CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview"})


class Feature(NamedTuple):
    readable_as_parquet: bool
    """Whether the files can be read as plain Parquet with the table's schema. If not, only delta format is correct."""
    must_be_named: bool = False
    """Whether a client must name the feature in `readerfeatures` to read a snapshot in which it is active."""
    mark: str | None = None
    """The type, or the key in a column's metadata, by which a schema shows that the feature is active."""
    property: tuple[str, str] | None = None
    """The table property that enables the feature. Spark refuses a table that has the property but not the feature."""


TYPE_WIDENING = Feature(
    readable_as_parquet=True, mark="delta.typeChanges", property=("delta.enableTypeWidening", "true")
)
VARIANT = Feature(readable_as_parquet=False, mark="variant")
# The Python client's kernel accepts the protocol, but fails on a shredded file.
SHREDDING = Feature(
    readable_as_parquet=False, must_be_named=True, mark="variant", property=("delta.enableVariantShredding", "true")
)

# `readable_as_parquet` was tested with the published Python client. It reads widened columns correctly in both formats.
# It reads timestamps without time zone and variants in delta format, and refuses them in parquet format. Spark reads
# timestamps without time zone in both.
FEATURES: Mapping[str, Feature] = {
    DELETION_VECTORS: Feature(
        readable_as_parquet=False, must_be_named=True, property=("delta.enableDeletionVectors", "true")
    ),
    COLUMN_MAPPING: Feature(readable_as_parquet=False, must_be_named=True),
    "timestampNtz": Feature(readable_as_parquet=True, mark="timestamp_ntz"),
    "typeWidening": TYPE_WIDENING,
    "typeWidening-preview": TYPE_WIDENING,
    "variantType": VARIANT,
    "variantType-preview": VARIANT,
    "variantShredding": SHREDDING,
    "variantShredding-preview": SHREDDING,
    # These matter only to clients that read checkpoints or delete files. Clients of a share do neither.
    "v2Checkpoint": Feature(readable_as_parquet=True, property=("delta.checkpointPolicy", "v2")),
    "vacuumProtocolCheck": Feature(readable_as_parquet=True),
}
MARKS = frozenset(feature.mark for feature in FEATURES.values() if feature.mark)


def check_readable(protocol: Protocol, metadata: Metadata) -> None:
    """Raises if this server cannot read the table correctly. The message is the reason."""
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1:
        raise DamagedLogError(f"the protocol version ({reader},{writer}) is not valid")
    if reader > MAX_READER_VERSION:
        raise UnsupportedOperationError(
            f"Delta protocol version ({reader},{writer}) is too new for this server, which reads tables of "
            f"reader version {MAX_READER_VERSION} and below."
        )
    if CATALOG_MANAGED.intersection(protocol.reader_features):
        raise UnsupportedOperationError(
            "The table is managed by a catalog, and only the catalog knows its latest version. It cannot be shared "
            "from its files."
        )
    if metadata.provider != "parquet":
        raise UnsupportedOperationError(
            f"The table's files are in the format {metadata.provider}, and only Parquet can be shared."
        )
    unknown = [name for name in protocol.reader_features if name not in FEATURES]
    if unknown:
        raise UnsupportedOperationError(
            f"The table needs the Delta reader feature {', '.join(unknown)}, which this server does not support."
        )
    mode = column_mapping_mode(metadata)
    allowed = COLUMN_MAPPING in reader_features(protocol)
    if mode not in ("none", "name", "id") or (mode != "none" and not allowed):
        raise DamagedLogError("the column mapping mode is unknown, or the protocol does not allow it")


def active_features(protocol: Protocol, metadata: Metadata, *, deletion_vectors: bool) -> frozenset[str]:
    """Returns the features needed to read the files. `deletion_vectors` is whether any file has one."""
    marks = _marks(metadata.schema_string)
    active = {name for name in protocol.reader_features if FEATURES[name].mark in marks}
    if column_mapping_mode(metadata) != "none":
        active.add(COLUMN_MAPPING)
    if deletion_vectors:
        active.add(DELETION_VECTORS)
    return frozenset(active)


def enabled_features(protocol: Protocol, metadata: Metadata) -> frozenset[str]:
    """Returns the features that the table's properties enable, active or not."""
    properties = {(name, value.lower()) for name, value in metadata.configuration.items()}
    return frozenset(name for name in protocol.reader_features if FEATURES[name].property in properties)


def protocol_for_clients(protocol: Protocol, needed: frozenset[str]) -> Protocol:
    """Returns the protocol for clients, without the reader features that are not `needed`.

    A client refuses any reader feature that it does not know, needed or not. Writer-only features stay:
    a client that only reads checks them only if a table property requires them.
    """
    dropped = {name for name in protocol.reader_features if name not in needed}
    return replace(
        protocol,
        reader_features=tuple(name for name in protocol.reader_features if name not in dropped),
        writer_features=tuple(name for name in protocol.writer_features if name not in dropped),
    )


def combined_protocol(protocols: Iterable[Protocol]) -> Protocol:
    """Returns a protocol that allows everything that any of the given ones allows."""
    each = list(protocols)
    newest = max(protocol.min_reader_version for protocol in each)
    readers = [name for protocol in each for name in protocol.reader_features]
    writers = [name for protocol in each for name in protocol.writer_features]
    if newest == MAX_READER_VERSION and any(protocol.min_reader_version == MAPPING_VERSION for protocol in each):
        readers.append(COLUMN_MAPPING)
        writers.append(COLUMN_MAPPING)
    return Protocol(
        newest,
        max(protocol.min_writer_version for protocol in each),
        tuple(dict.fromkeys(readers)),
        tuple(dict.fromkeys(writers)),
    )


def reader_features(protocol: Protocol) -> frozenset[str]:
    """Returns the reader features that a protocol names or that its version implies."""
    return frozenset({COLUMN_MAPPING} if protocol.min_reader_version == MAPPING_VERSION else protocol.reader_features)


def column_mapping_mode(metadata: Metadata) -> str:
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower()


def _marks(schema_string: str) -> frozenset[str]:
    # Parsing is slow with thousands of columns, and most schemas have no mark.
    if not any(f'"{mark}"' in schema_string for mark in MARKS):
        return frozenset()
    return MARKS.intersection(_words(orjson.loads(schema_string)))


def _words(schema: Any) -> Iterator[str]:
    """Yields all types in a schema, at any depth, and all keys of its columns' metadata."""
    nodes = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            nodes += [node.get(name) for name in ("type", "fields", "elementType", "keyType", "valueType")]
            metadata = node.get("metadata")
            yield from metadata if isinstance(metadata, dict) else ()
