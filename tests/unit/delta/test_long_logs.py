"""The limit on the log that a query reads: the bytes of the checkpoint, its sidecar files and the commits after it."""

import pytest

from core.delta import reader
from core.delta.log.segment import commit_file
from core.delta.tables import DeltaTables
from core.errors import LongLogError
from tests.unit.delta.builder import PROTOCOL, TableInMemory, add, metadata
from tests.unit.delta.test_reader import CHECKPOINTS, FORMS, SIDECARS, table_at_checkpoint


def log_bytes(table: TableInMemory, form: str) -> int:
    objects = table.s3.objects
    sidecars = [f"_delta_log/_sidecars/{path}" for path in SIDECARS] if "sidecars" in form else []
    read = [*CHECKPOINTS[form], *sidecars, commit_file(3)]
    return sum(len(objects[table.location.key(path)][0]) for path in read)


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_up_to_the_limit_and_no_further(form: str) -> None:
    table = table_at_checkpoint(**CHECKPOINTS[form])
    limit = log_bytes(table, form)
    assert DeltaTables().snapshot(table.storage(), max_log_bytes=limit).num_files == 3
    with pytest.raises(LongLogError) as refused:
        DeltaTables().snapshot(table.storage(), max_log_bytes=limit - 1)
    assert refused.value.version == 3
    DeltaTables().check_tip(table.storage(), 3, refused.value.tip)


def test_sidecar_files_over_the_limit_are_not_fetched() -> None:
    table = table_at_checkpoint(**CHECKPOINTS["JSON with sidecars"])
    fetched: list[str] = []
    table.s3.on_get = fetched.append
    with pytest.raises(LongLogError):
        DeltaTables().snapshot(table.storage(), max_log_bytes=log_bytes(table, "JSON with sidecars") - 1)
    assert not any("_sidecars" in key for key in fetched)


@pytest.mark.parametrize("limit", ["MAX_COMMITS", "MAX_COMMIT_BYTES"])
def test_a_log_beyond_the_limits_of_commits_is_too_long_too(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, limit, 1)
    table = TableInMemory()
    table.commit(0, PROTOCOL, metadata())
    table.commit(1, add("a"))
    with pytest.raises(LongLogError):
        DeltaTables().snapshot(table.storage(), max_log_bytes=1e9)
    assert DeltaTables().snapshot(table.storage()).num_files == 1


def test_a_table_in_memory_reads_only_new_commits_and_has_no_limit_but_zero() -> None:
    table = TableInMemory()
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, add("b"))
    assert tables.snapshot(table.storage(), max_log_bytes=1).num_files == 2
    with pytest.raises(LongLogError):
        tables.snapshot(table.storage(), max_log_bytes=0)
