"""Log replay in Spark returns the same files as a snapshot of `core.delta`."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from core.delta.tables import DeltaTables
from core.errors import DamagedLogError, SharingError
from core.index.layout.rows import NotIndexableError
from core.pruning.schema import Schema
from pipeline.footers import Footers
from pipeline.log.rows import FILE
from pipeline.spark import replay
from pipeline.spark.replay import Replayed, replayed
from pipeline.storage import TableStorage
from tests.property.delta_history import STEPS, History, Step
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    remove,
    v2_name,
    vector,
)
from tests.unit.pipeline.log_rows import add_of, in_memory, in_order, on_disk, unchanged

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

# The two ways to get the files of a log, which must return the same.
WAYS: dict[str, Callable[[Replayed], DataFrame]] = {
    "joined": lambda log: log.files,
    "mapped": lambda log: log.mapped(unchanged, FILE),
}


def check_as_core(spark: SparkSession, table: TableInMemory, storage: TableStorage, version: int | None = None) -> None:
    snapshot = DeltaTables().snapshot(table.storage(), version=version)
    with replayed(spark, storage, version) as log:
        rows_by_way = [[row.asDict(recursive=True) for row in way(log).collect()] for way in WAYS.values()]
        sampled = log.sample().column("stats").to_pylist()
    for rows in rows_by_way:
        assert in_order(map(add_of, rows)) == in_order(snapshot.adds())
    for attribute in ("version", "timestamp", "protocol", "metadata"):
        assert getattr(log.info, attribute) == getattr(snapshot, attribute)
    assert {add.stats for add in snapshot.adds()} <= set(sampled)  # the sample of a small table is complete


@pytest.mark.parametrize(
    "golden",
    [
        "checkpoint",
        "multi-part-checkpoint",
        "v2-checkpoint-json",
        "v2-checkpoint-parquet",
        "log-replay-dv-key-cases",
        "dv-with-columnmapping",
        "basic-with-inserts-overwrite-restore",
        "only-checkpoint-files",
    ],
)
def test_a_golden_table_is_replayed_as_core_replays_it(spark: SparkSession, golden_tables: Path, golden: str) -> None:
    folder = golden_tables / golden
    check_as_core(spark, in_memory(folder), TableStorage(folder.as_uri()))


def test_the_newest_action_on_a_file_wins_wherever_it_comes_from(spark: SparkSession, tmp_path: Path) -> None:
    one, two = ({"deletionVector": vector(each)} for each in ("one", "two"))
    table = TableInMemory()
    files = [add("kept"), add("removed"), add("replaced"), add("deleted from", **one), add("vector lost", **one)]
    table.put(name(7, "checkpoint.parquet"), checkpoint(MODERN_PROTOCOL, metadata(), *files))
    table.commit(8, remove("removed"), add("new"), add("removed at once"), add("removed first"))
    table.commit(9, add("replaced", size=2), add("deleted from", **two), remove("deleted from", **one))
    table.commit(10, remove("removed at once"), add("vector lost"), remove("vector lost", **one))
    table.commit(11, remove("removed first"), add("removed first", size=3), add("added first"), remove("added first"))
    table.commit(12, metadata(name="renamed"), add("renamed"))
    table.put(compaction(8, 9), b"".join(table.s3.objects[table.location.key(name(each))][0] for each in (8, 9)))
    check_as_core(spark, table, on_disk(table, tmp_path))
    check_as_core(spark, table, on_disk(table, tmp_path), version=10)


def test_spark_joins_if_commits_touch_many_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_TOUCHED", 2)
    table = TableInMemory()
    table.put(name(7, "checkpoint.parquet"), checkpoint(MODERN_PROTOCOL, metadata(), *map(add, "abcde")))
    table.commit(8, remove("a"), remove("b"))
    with replayed(spark, on_disk(table, tmp_path)) as log:
        assert "LeftAnti" not in plan_of(WAYS["mapped"](log))
    table.commit(9, remove("c"))
    with replayed(spark, on_disk(table, tmp_path)) as log:
        assert "LeftAnti" in plan_of(WAYS["mapped"](log))
        assert {row.path for row in WAYS["mapped"](log).collect()} == {"d", "e"}


def plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().toString())


def test_a_table_without_a_checkpoint_is_replayed_from_its_commits(spark: SparkSession, tmp_path: Path) -> None:
    table = TableInMemory()
    table.commit(0, MODERN_PROTOCOL, metadata())
    for version in range(1, 200):
        table.commit(version, add(f"{version % 40}", size=version), remove(f"{version % 7}"))
    check_as_core(spark, table, on_disk(table, tmp_path))


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=st.lists(STEPS, min_size=3, max_size=9))
def test_any_history_is_replayed_as_core_replays_it(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    history = History(TableInMemory())
    for step in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    check_as_core(spark, history.table, on_disk(history.table, tmp_path_factory.mktemp("history")))


NO_SCHEMA = {"metaData": {"id": "1", "format": {"provider": "parquet"}}}


def test_replaced_metadata_and_a_compaction_that_is_not_reconciled_are_read_as_core_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = TableInMemory()
    table.put(name(7, "checkpoint.parquet"), checkpoint(MODERN_PROTOCOL, NO_SCHEMA, add("a")))
    table.commit(8, NO_SCHEMA, remove("a"))
    table.commit(9, metadata(), add("a", size=2))
    table.put(compaction(8, 9), commit(NO_SCHEMA, add("a", size=2), remove("a"), metadata()))
    table.commit(10, add("b"))
    check_as_core(spark, table, on_disk(table, tmp_path))


REJECTED = {
    "a commit is missing": {name(2): commit(add("a"))},
    "a commit is broken": {name(1): b"{"},
    "a feature is unknown": {
        name(1): commit({"protocol": {**MODERN_PROTOCOL["protocol"], "readerFeatures": ["unknown"]}})
    },
    "a checkpoint is damaged": {name(1): commit(), name(1, "checkpoint.parquet"): b"PAR1" + bytes(100)},
    "a checkpoint has an invalid add": {
        name(1): commit(),
        name(1, "checkpoint.parquet"): checkpoint(MODERN_PROTOCOL, metadata(), add("a", modificationTime=None)),
    },
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("files", REJECTED.values(), ids=REJECTED.keys())
def test_a_log_that_core_rejects_raises_the_same_error(
    spark: SparkSession, tmp_path: Path, files: dict[str, bytes], way: Callable[[Replayed], DataFrame]
) -> None:
    table = TableInMemory()
    table.commit(0, MODERN_PROTOCOL, metadata())
    for relative, body in files.items():
        table.put(relative, body)
    with pytest.raises(SharingError) as expected:
        list(DeltaTables().snapshot(table.storage()).adds())
    with (
        pytest.raises(type(expected.value)) as raised,
        replayed(spark, on_disk(table, tmp_path)) as log,
    ):
        way(log).collect()
    assert raised.value.message == expected.value.message
    if isinstance(expected.value, DamagedLogError):
        assert isinstance(raised.value, DamagedLogError)
        assert (raised.value.file, raised.value.line) == (expected.value.file, expected.value.line)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("at_checkpoint", [False, True], ids=["in a commit", "in a checkpoint"])
def test_a_file_that_cannot_be_indexed_raises_its_own_reason(
    spark: SparkSession, tmp_path: Path, at_checkpoint: bool, way: Callable[[Replayed], DataFrame]
) -> None:
    table, actions = TableInMemory(), (MODERN_PROTOCOL, metadata(), add("a", tags={"k": 5}))
    if at_checkpoint:
        table.put(v2_name(0, "json"), commit(*actions))
    table.commit(0, *actions)
    with (
        pytest.raises(NotIndexableError, match=r"^The log has an invalid value for tags\.$"),
        replayed(spark, on_disk(table, tmp_path)) as log,
    ):
        way(log).collect()


def test_files_without_statistics_get_footer_statistics_in_an_extra_column(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    write_deltalake(tmp_path, pa.table({"id": [7]}), mode="append")
    log = tmp_path / name(1)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_bytes(commit(*({"add": each["add"] | {"stats": None}} if "add" in each else each for each in actions)))
    table = TableStorage(tmp_path.as_uri())
    with replayed(spark, table) as log:
        files, metadata = log.files, log.info.metadata
        schema = Schema(metadata.schema_string, (), column_mapping=False)
        footers = Footers.of(table, metadata, [schema.find(("id",))], max_files=10)
        completed = files.mapInArrow(footers.complete, f"{files._jdf.schema().toDDL()}, footer_stats STRING")
        rows = completed.orderBy("modificationTime").collect()
    assert [(row.stats is None, row.footer_stats) for row in rows] == [
        (False, None),
        (True, '{"numRecords":1,"minValues":{"id":7},"maxValues":{"id":7},"nullCount":{"id":0}}'),
    ]
