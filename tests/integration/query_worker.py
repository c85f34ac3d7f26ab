"""A worker of asynchronous queries in its own process. It prints the name of each DynamoDB request before it."""

import json
import sys
import time
from typing import Any

import botocore.session
from botocore.config import Config

from core.index.read.store import IndexStore
from core.index.write import full_build, packing
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.queries.query import Source
from core.queries.store import QueryStore
from core.queries.worker import QueryWorker
from core.storage.location import S3Location
from core.storage.objects import ObjectReader, TableObjects

CONTENT_BYTES = 4500
RANGE_FILES = 100


def main(key: str, index_table: str, seconds_ahead: str, client_arguments: str, dynamodb_url: str) -> None:
    """`seconds_ahead` is how far the clock of the test is ahead."""
    packing.CONTENT_BYTES, full_build.RANGE_FILES = CONTENT_BYTES, RANGE_FILES
    session = botocore.session.Session()
    arguments = json.loads(client_arguments)
    s3: Any = session.create_client("s3", config=Config(s3={"addressing_style": "path"}), **arguments)
    dynamodb: Any = session.create_client("dynamodb", **arguments | {"endpoint_url": dynamodb_url})
    dynamodb.meta.events.register("before-call", lambda model, **_: _print(model.name))

    def open_table(source: Source) -> TableObjects:
        location = S3Location.parse(source.location)
        return TableObjects(ObjectReader(s3, location.bucket), location)

    QueryWorker(
        QueryStore(dynamodb, index_table, now=lambda: time.time() + float(seconds_ahead)),
        IndexTable(IndexStore(dynamodb, index_table), IndexWriter(dynamodb, index_table)),
        open_table,
    ).prepare(key)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
