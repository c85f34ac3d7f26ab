"""A table in the embedded S3 with its index in the embedded DynamoDB."""

import uuid
from collections.abc import Iterator
from typing import Any

import botocore.session

from cli.embedded.ministack import EmbeddedAws
from core.delta.snapshot import Snapshot
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.layout.items import table_of
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.storage.objects import TableObjects
from pipeline.connection import CONFIG
from tests.unit.delta.builder import PROTOCOL, Action, TableInS3, metadata, remove
from tests.unit.index.indexed_table import files, schema_of


def dynamodb_client(aws: EmbeddedAws, endpoint_url: str | None = None) -> Any:
    arguments = aws.client_arguments() | ({"endpoint_url": endpoint_url} if endpoint_url else {})
    return botocore.session.Session().create_client("dynamodb", config=CONFIG, **arguments)


def index_table(aws: EmbeddedAws) -> str:
    """Creates a table for one test. Returns its name."""
    name = f"index-{uuid.uuid4().hex}"
    dynamodb_client(aws).create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


class EmbeddedIndex:
    def __init__(self, aws: EmbeddedAws, num_files: int = 400) -> None:
        self._aws = aws
        self.lake = TableInS3(aws)
        self.index_table = index_table(aws)
        self.opened = TableObjects(self.lake.storage().objects(), self.lake.location)
        self.table = table_of(self.lake.location.uri)
        self.version = 0
        self.live = {action["add"]["path"] for action in files(0, num_files)}
        schema = schema_of(id="long", s="string", p="string")
        self.lake.commit(0, PROTOCOL, metadata(schemaString=schema), *files(0, num_files))

    def commit(self) -> None:
        """Removes some files and adds others."""
        self.version += 1
        removed = sorted(self.live)[self.version :: 150]
        added: list[Action] = files(10_000 + self.version * 3, 10_003 + self.version * 3)
        self.lake.commit(self.version, *map(remove, removed), *added)
        self.live = self.live - set(removed) | {action["add"]["path"] for action in added}

    def indexes(self, endpoint_url: str | None = None) -> IndexTable:
        client = dynamodb_client(self._aws, endpoint_url)
        return IndexTable(
            IndexStore(client, self.index_table, sleep=lambda _: None),
            IndexWriter(client, self.index_table, sleep=lambda _: None),
        )

    def snapshot(self, endpoint_url: str | None = None) -> Snapshot:
        """The latest snapshot, as a new process reads it: from the index if it can be used."""
        index = StoredIndexes(self.indexes(endpoint_url).store)
        return DeltaTables(index=index, way=Way.INDEX).snapshot(self.lake.storage())

    def check_read(self) -> None:
        """Checks that a new process reads the live files, with or without the index."""
        assert paths(self.snapshot()) == self.live

    def check_indexed(self) -> None:
        """Checks that the index has the latest version, and the same files as the log."""
        snapshot = self.snapshot()
        assert snapshot.checkpoint_id.startswith(f"{self.version}:index-")
        assert snapshot.summary == DeltaTables().snapshot(self.lake.storage()).summary
        assert paths(snapshot) == self.live

    def items(self) -> Iterator[tuple[str, str]]:
        """The keys of all items in the index table."""
        pages = dynamodb_client(self._aws).get_paginator("scan").paginate(TableName=self.index_table)
        for page in pages:
            for item in page["Items"]:
                yield item["pk"]["S"], item["sk"]["S"]

    def builds(self) -> set[str]:
        """The builds that still have items besides their markers."""
        return {pk.split("#")[1] for pk, _ in self.items() if "#" in pk}


def paths(snapshot: Snapshot) -> set[str]:
    found = [file.path for file in snapshot.adds()]
    assert len(set(found)) == len(found)
    return set(found)
