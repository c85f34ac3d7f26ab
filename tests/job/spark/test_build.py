"""Spark indexes a table in S3 with the permissions of the job. The index returns the same files as the log."""

import itertools
import json
import uuid
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from cli.embedded.ministack import EmbeddedAws
from core.api.requests.query import QueryRequest
from core.catalog.model import Table
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write import version_build
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.sharing.call import Observed
from core.sharing.selection import Selection
from pipeline import local_build
from pipeline.connection import dynamodb
from pipeline.indexing import Indexer
from tests.integration.iam import allow, create_role
from tests.job.spark.conftest import INDEX_TABLE, JobUser
from tests.unit.delta.builder import PROTOCOL, TableInS3, add, checkpoint, metadata, name, remove, vector

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

FILES = 6000
DAYS = 40


def file(number: int, **more: Any) -> dict[str, Any]:
    values = {"id": number * 10, "s": f"{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}" * 3}
    stats = {
        "numRecords": 10,
        "minValues": values,
        "maxValues": values | {"id": number * 10 + 9},
        "nullCount": {"id": 0},
    }
    return add(
        f"p={number % DAYS}/{number}.parquet", size=number, p=str(number % DAYS), stats=json.dumps(stats), **more
    )


@pytest.fixture(scope="module")
def table(aws: EmbeddedAws) -> TableInS3:
    """Unordered files, some of them with rare features."""
    table = TableInS3(aws)
    rare = [
        file(1, deletionVector=vector("one"), tags={"a": None}, baseRowId=7),
        file(2, clusteringProvider="é"),
        add("ü/ %20.parquet", p=None, stats=None),
        add("no.parquet", stats="not JSON"),
    ]
    files = [file(number * 7919 % FILES) for number in range(FILES) if number * 7919 % FILES not in (1, 2)]
    table.put(name(3, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *rare, *files))
    table.commit(3)
    table.commit(4, remove("p=7/7.parquet"), file(FILES))
    return table


@pytest.fixture(scope="module")
def shared(aws: EmbeddedAws, table: TableInS3, job_user: JobUser) -> Table:
    bucket = f"arn:aws:s3:::{table.location.bucket}"
    rights = [allow("s3:GetObject", f"{bucket}/{table.location.prefix}/*"), allow("s3:ListBucket", bucket)]
    role_arn = create_role(aws, f"table-{uuid.uuid4().hex[:8]}", *rights, trusts=job_user.arn)
    return Table("t", "s", "share", "1", "2", table.location.uri, role_arn=role_arn, region=aws.region)


@pytest.fixture
def indexer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Indexer:
    monkeypatch.setattr(local_build, "SMALL_LOG_BYTES", 0)  # always use Spark
    monkeypatch.setattr(version_build, "MAX_COMMIT_BYTES", 0)
    dynamodb.cache_clear()
    return Indexer(
        IndexTable(IndexStore(dynamodb(), INDEX_TABLE), IndexWriter(dynamodb(), INDEX_TABLE)), spark=lambda: spark
    )


def indexed(aws: EmbeddedAws) -> tuple[DeltaTables, IndexStore]:
    store = IndexStore(boto3.client("dynamodb", **aws.client_arguments()), INDEX_TABLE)
    ticks = itertools.count(0, 60)
    return DeltaTables(index=StoredIndexes(store, now=lambda: float(next(ticks))), way=Way.INDEX), store


def test_an_index_built_by_spark_returns_the_same_files_as_the_log(
    aws: EmbeddedAws, table: TableInS3, shared: Table, indexer: Indexer
) -> None:
    outcome = indexer.index(shared)
    assert (outcome.what, outcome.head.version, outcome.head.files) == ("built", 4, FILES + 2)
    assert outcome.head.chunks > 1
    tables, store = indexed(aws)
    from_log, from_index = DeltaTables().snapshot(table.storage()), tables.snapshot(table.storage())
    assert from_index.summary == from_log.summary
    assert sorted(from_index.adds()) == sorted(from_log.adds())
    items_of_full_listing = store.traffic.items

    selection = Selection.of(QueryRequest(predicate_hints=("p = '7' AND id < 3000",)), from_log.metadata)
    kept = [
        sorted(
            path
            for batch in selection.kept(snapshot.batches_after(selection.predicate, 0), Observed())
            for path in batch.files.paths
        )
        for snapshot in (from_log, from_index)
    ]
    assert kept[0] == kept[1] != []
    assert store.traffic.items - items_of_full_listing < outcome.head.chunks


def test_a_second_run_has_nothing_to_do_and_a_full_run_builds_again(shared: Table, indexer: Indexer) -> None:
    assert indexer.index(shared).what in ("built", "up to date")
    before = indexer.index(shared)
    assert (before.what, before.units) == ("up to date", 0)
    again = indexer.index(shared, full=True)
    assert (again.what, again.head.files) == ("built", before.head.files)
    assert again.head.build != before.head.build


def test_workers_index_the_given_number_of_columns(shared: Table, indexer: Indexer) -> None:
    indexes = indexer._indexes
    outcome = Indexer(indexes, spark=indexer._spark, columns=0).index(shared)
    assert outcome.what == "built"
    root = Root.unpack(indexes.store.root(table_of(shared.location), outcome.head.build))
    assert [field.path for field in root.zones] == [("p",)]
