"""A build in its own process. It prints the name of each DynamoDB request before it sends it, so tests can kill it."""

import json
import sys
from typing import Any

import botocore.session
from botocore.config import Config

from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.read.store import IndexStore
from core.index.write import packing
from core.index.write.build import LostRaceError
from core.index.write.version_build import IndexTable, build_incrementally, live_index
from core.index.write.writer import IndexWriter
from core.storage.location import S3Location
from core.storage.objects import ObjectReader, TableObjects
from pipeline.local_build import build_locally

LOST = "lost"
CONTENT_BYTES = 4500


def build(indexes: IndexTable, opened: TableObjects) -> Head | None:
    """Builds incrementally if possible, otherwise in full."""
    live = indexes.live(table_of(opened.location.uri))
    older = live_index(indexes, opened, live) if live else None
    later = build_incrementally(indexes, opened, older) if older else None
    return later or build_locally(indexes, opened, live.build if live else None)


def main(bucket: str, prefix: str, index_table: str, client_arguments: str) -> None:
    packing.CONTENT_BYTES = CONTENT_BYTES
    session = botocore.session.Session()
    arguments = json.loads(client_arguments)
    s3: Any = session.create_client("s3", config=Config(s3={"addressing_style": "path"}), **arguments)
    dynamodb: Any = session.create_client("dynamodb", **arguments)
    dynamodb.meta.events.register("before-call", lambda model, **_: _print(model.name))
    indexes = IndexTable(IndexStore(dynamodb, index_table), IndexWriter(dynamodb, index_table))
    try:
        build(indexes, TableObjects(ObjectReader(s3, bucket), S3Location(bucket, prefix)))
    except LostRaceError:
        _print(LOST)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
