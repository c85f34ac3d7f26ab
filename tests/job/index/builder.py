"""A build in a process of its own, which tells of each request to DynamoDB before it is made, and can so be killed."""

import json
import sys
from typing import Any

import botocore.session
from botocore.config import Config

from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.read.store import IndexStore
from core.index.write import packing as chunks
from core.index.write.build import LostRaceError
from core.index.write.writer import IndexWriter
from core.storage.location import S3Location
from core.storage.objects import ObjectReader
from pipeline.local_build import IndexTable, build_later, build_small, older_index
from pipeline.storage import TableObjects

LOST = "lost"
CONTENT_BYTES = 4500


def build(indexes: IndexTable, opened: TableObjects) -> Head | None:
    """On from the older index if that will do, else all of it."""
    live = indexes.live(table_of(opened.location.uri))
    older = older_index(indexes, opened, live) if live else None
    later = build_later(indexes, opened, older) if older else None
    return later or build_small(indexes, opened, live.build if live else None)


def main(bucket: str, prefix: str, index_table: str, client_arguments: str) -> None:
    chunks.CONTENT_BYTES = CONTENT_BYTES
    session = botocore.session.Session()
    arguments = json.loads(client_arguments)
    s3: Any = session.create_client("s3", config=Config(s3={"addressing_style": "path"}), **arguments)
    dynamodb: Any = session.create_client("dynamodb", **arguments)
    dynamodb.meta.events.register("before-call", lambda model, **_: _tell(model.name))
    indexes = IndexTable(IndexStore(dynamodb, index_table), IndexWriter(dynamodb, index_table))
    try:
        build(indexes, TableObjects(ObjectReader(s3, bucket), S3Location(bucket, prefix)))
    except LostRaceError:
        _tell(LOST)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
