"""Workers read a table in S3 that only its storage role can read. Each gets its own credentials."""

import uuid

import pytest
from pyspark.sql import SparkSession

from cli.embedded.ministack import EmbeddedAws
from core.delta.log.segment import digest_of
from core.delta.tables import DeltaTables
from core.errors import TableFilesError
from pipeline.log.rows import FILE
from pipeline.spark.replay import replayed
from pipeline.storage import TableStorage
from tests.integration.iam import allow, create_role
from tests.job.spark.conftest import JobUser
from tests.unit.delta.builder import PROTOCOL, TableInS3, add, checkpoint, metadata, name, remove
from tests.unit.pipeline.log_rows import add_of, in_order, unchanged

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def table(aws: EmbeddedAws) -> TableInS3:
    table = TableInS3(aws)
    files = [add(f"{number}", stats=f'{{"numRecords":{number}}}') for number in range(1000)]
    table.put(name(3, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *files))
    table.commit(3)
    table.commit(4, remove("7"), add("new"))
    return table


@pytest.fixture(scope="module")
def storage(aws: EmbeddedAws, table: TableInS3, job_user: JobUser) -> TableStorage:
    bucket = f"arn:aws:s3:::{table.location.bucket}"
    role_arn = create_role(
        aws,
        f"table-{uuid.uuid4().hex[:8]}",
        allow("s3:GetObject", f"{bucket}/{table.location.prefix}/*"),
        allow("s3:ListBucket", bucket),
        trusts=job_user.arn,
        external_id="acme-7",
    )
    return TableStorage(table.location.uri, role_arn, "acme-7", aws.region)


def test_workers_read_the_table_with_its_role(spark: SparkSession, table: TableInS3, storage: TableStorage) -> None:
    with replayed(spark, storage) as log:
        joined = [row.asDict(recursive=True) for row in log.files.collect()]
        mapped = [row.asDict(recursive=True) for row in log.mapped(unchanged, FILE).collect()]
    snapshot = DeltaTables().snapshot(table.storage())
    assert (log.info.version, digest_of([log.info.segment.tip])) == (4, snapshot.tip)
    assert in_order(map(add_of, joined)) == in_order(map(add_of, mapped)) == in_order(snapshot.adds())


def test_the_spark_plan_contains_no_credentials(spark: SparkSession, storage: TableStorage, job_user: JobUser) -> None:
    with replayed(spark, storage) as log:
        files, mapped = log.files, log.mapped(unchanged, FILE)
        plan = "".join(str(each._jdf.queryExecution().toString()) for each in (files, mapped))
    assert "delta-log" in plan
    assert job_user.variables["AWS_SECRET_ACCESS_KEY"] not in plan
    assert job_user.variables["AWS_ACCESS_KEY_ID"] not in plan


def test_a_table_that_cannot_be_read_raises_the_error_of_core(spark: SparkSession, storage: TableStorage) -> None:
    wrong_external_id = TableStorage(storage.location, storage.role_arn, "another id", storage.region)
    with pytest.raises(TableFilesError, match="permission denied"), replayed(spark, wrong_external_id):
        pass
