"""Listings of a log: which files a version is read from, and its timestamp."""

import itertools

import pytest

from core.delta.log.listing import LOOK_BACK, later_log, latest_log, list_log
from core.delta.log.segment import Log
from core.errors import ChangedLogError, DamagedLogError, TableFilesError
from tests.unit.delta.builder import TableInMemory, compaction, name, v2_name

PARTS = [f"checkpoint.000000000{part}.0000000002.parquet" for part in (1, 2)]


def table_with(*names: str, prefix: str = "some/table") -> TableInMemory:
    table = TableInMemory(prefix)
    for relative in names:
        table.put(relative, b"{}")
    return table


def listed(table: TableInMemory) -> Log:
    return list_log(table.objects(), table.location)


def latest(table: TableInMemory) -> Log:
    return latest_log(table.objects(), table.location)


def names(infos) -> list[str]:
    return [info.key.removeprefix("some/table/") for info in infos]


def commits(last: int) -> list[str]:
    return [name(version) for version in range(last + 1)]


def test_a_segment_begins_with_the_newest_complete_checkpoint():
    table = table_with(
        *commits(7),
        name(2, "checkpoint.parquet"),
        *(name(4, part) for part in PARTS),
        name(6, PARTS[0]),
    )
    log = listed(table)

    newest = log.segment(7)
    assert names(newest.checkpoint) == [name(4, part) for part in PARTS]
    assert names(newest.commits) == [name(5), name(6), name(7)]
    assert names(log.segment(3).checkpoint) == [name(2, "checkpoint.parquet")]
    assert log.segment(1).checkpoint == ()
    assert names(log.segment(1).commits) == [name(0), name(1)]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_v2_checkpoint_has_a_uuid_in_its_name(form):
    log = listed(table_with(*commits(3), v2_name(2, form)))
    assert names(log.segment(3).checkpoint) == [v2_name(2, form)]


@pytest.mark.parametrize(
    "suffixes",
    list(itertools.combinations(["checkpoint.parquet", *PARTS, "checkpoint.0000000001.0000000001.parquet"], 3)),
)
def test_one_complete_checkpoint_is_chosen_if_a_version_has_several(suffixes):
    log = listed(table_with(*commits(1), *(name(1, suffix) for suffix in suffixes), v2_name(1, "json")))
    chosen = names(log.segment(1).checkpoint)
    assert chosen
    assert len(chosen) == 1 or chosen == [name(1, part) for part in PARTS]


@pytest.mark.parametrize("empty", ["checkpoint.parquet", PARTS[1]])
def test_a_checkpoint_with_an_empty_file_is_ignored(empty):
    """Spark ignores it too: it is unfinished."""
    table = table_with(*commits(1), name(1, PARTS[0]), name(1, empty))
    table.put(name(1, empty), b"")
    assert listed(table).checkpoints == {}


def test_parts_of_two_checkpoints_are_not_mixed():
    of_three = [f"checkpoint.000000000{part}.0000000003.parquet" for part in (2, 3)]
    log = listed(table_with(*commits(1), name(1, PARTS[0]), *(name(1, part) for part in of_three)))
    assert log.checkpoints == {}


def test_other_files_of_the_log_are_ignored():
    table = table_with(
        name(0),
        name(0, "crc"),
        name(0, "json.tmp"),
        name(0, "checkpoint.json"),
        name(0, "checkpoint.0000000001.0000000001.json"),
        name(0, "checkpoint.80a083e8.parquet"),
        name(0, "checkpoint.0000000001.0000000000.parquet"),
        "_delta_log/9.json",
        "_delta_log/0000000000000000000٣.json",
        "_delta_log/_staged_commits/00000000000000000001.json",
        "_delta_log/_sidecars/00000000000000000001.json",
        "_delta_log/.hidden",
        "_delta_log_of_another/00000000000000000007.json",
    )
    log = listed(table)
    assert names(log.commits.values()) == [name(0)]
    assert (log.checkpoints, log.compactions) == ({}, {})


@pytest.mark.parametrize(
    ("compactions", "version", "read"),
    [
        ([(1, 4)], 6, [name(0), compaction(1, 4), name(5), name(6)]),
        ([(1, 4), (1, 3)], 6, [name(0), compaction(1, 4), name(5), name(6)]),
        ([(1, 4), (2, 5)], 6, [name(0), compaction(1, 4), name(5), name(6)]),
        ([(0, 2), (3, 5)], 6, [compaction(0, 2), compaction(3, 5), name(6)]),
        ([(1, 6)], 4, commits(4)),
        ([(1, 3), (1, 6)], 4, [name(0), compaction(1, 3), name(4)]),
        ([(1, 4)], 4, commits(4)),
        ([(2, 2)], 4, commits(4)),
        ([(3, 1)], 4, commits(4)),
    ],
    ids=["used", "widest", "overlapping", "two", "later", "widest that fits", "at the end", "one commit", "reversed"],
)
def test_compacted_log_files_replace_commits_before_the_last(compactions, version, read):
    log = listed(table_with(*commits(6), *(compaction(*span) for span in compactions)))
    # Bounded, so that an endless loop does not take all memory.
    assert names(file for file, _ in itertools.islice(log._spans(0, version), 20)) == read


def test_a_compaction_replaces_commits_that_were_cleaned_up():
    log = listed(table_with(name(0), compaction(1, 3), name(4)))
    assert names(log.segment(4).commits) == [name(0), compaction(1, 3), name(4)]
    with pytest.raises(DamagedLogError, match="the commit of version 1 is missing"):
        log.segment(3)


def test_a_compaction_that_begins_before_the_checkpoint_is_not_read():
    log = listed(table_with(*commits(6), name(3, "checkpoint.parquet"), compaction(2, 5), compaction(4, 5)))
    assert names(log.segment(6).commits) == [compaction(4, 5), name(6)]


def test_the_hint_avoids_listing_older_files():
    table = table_with(*commits(3001), name(3000, "checkpoint.parquet"))
    table.hint(3000)
    log = latest(table)
    assert sorted(log.commits) == list(range(3000 - LOOK_BACK, 3002))
    assert table.requests == ["GetObject", "ListObjectsV2"]
    assert log.reaches(3000)
    assert not log.reaches(2999)


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"version":"7"}',
        b'{"version":7.0}',
        b'{"version":-1}',
        b'{"version":5}',
        b'{"version":99}',
        b'{"version":18446744073709551615}',
    ],
)
def test_a_wrong_hint_is_ignored(hint):
    table = table_with(*commits(8), name(7, "checkpoint.parquet"))
    table.put("_delta_log/_last_checkpoint", hint)
    assert latest(table) == listed(table)


def test_a_stale_hint_only_makes_the_listing_longer():
    table = table_with(*commits(8), name(3, "checkpoint.parquet"), name(7, "checkpoint.parquet"))
    table.hint(3)
    assert names(latest(table).segment(8).checkpoint) == [name(7, "checkpoint.parquet")]


def test_the_listing_stops_after_the_last_version():
    table = table_with(*commits(1), *(f"_delta_log/_sidecars/{number}.parquet" for number in range(5000)))
    listed(table)
    assert table.requests == ["ListObjectsV2"]


@pytest.mark.parametrize(("present", "missing"), [([1, 2], 0), ([0, 2], 1), ([0, 1, 4], 2)])
def test_the_error_for_a_gap_names_the_missing_version(present, missing):
    log = listed(table_with(*(name(version) for version in present)))
    with pytest.raises(DamagedLogError, match=f"the commit of version {missing} is missing"):
        log.segment(log.version)
    with pytest.raises(DamagedLogError, match=f"the commit of version {missing} is missing"):
        log.check_complete()


def test_a_gap_before_the_last_checkpoint_is_harmless():
    log = listed(table_with(name(3), name(5, "checkpoint.parquet"), name(6)))
    log.check_complete()
    assert (log.earliest_version, log.version) == (5, 6)


def test_the_tip_is_the_checkpoint_if_the_commit_was_cleaned_up():
    log = listed(table_with(name(5, "checkpoint.parquet")))
    segment = log.segment(5)
    assert (names([segment.tip]), segment.commits) == ([name(5, "checkpoint.parquet")], ())


def test_a_segment_is_found_again_by_its_checkpoint_id_after_newer_checkpoints():
    table = table_with(*commits(6))
    from_first_commit = listed(table).segment(5)
    table.put(name(2, "checkpoint.parquet"), b"{}")
    from_checkpoint = listed(table).segment(5)
    for later in (name(4, "checkpoint.parquet"), v2_name(2, "json"), *(name(2, part) for part in PARTS)):
        table.put(later, b"{}")
    log = listed(table)
    assert names(log.segment(5).checkpoint) == [name(4, "checkpoint.parquet")]
    for known in (from_first_commit, from_checkpoint, log.segment(5)):
        assert log.segment_from_checkpoint(known.checkpoint_id, 5) == known


def test_each_checkpoint_of_a_version_has_its_own_id():
    table = table_with(*commits(2), v2_name(1, "json"))
    known = listed(table).segment(2)
    table.put(name(1, "checkpoint.parquet"), b"{}")
    log = listed(table)
    table.put(name(3))
    for listing in (log, later_log(log, table.objects(), table.location)):
        assert listing is not None
        assert listing.segment(2).checkpoint_id != known.checkpoint_id
        assert listing.segment_from_checkpoint(known.checkpoint_id, 2) == known


def test_a_segment_after_a_base_has_the_checkpoint_id_of_the_base():
    table = table_with(*commits(2), name(1, "checkpoint.parquet"))
    base = listed(table).segment(2)
    table.put(name(3))
    table.put(name(3, "checkpoint.parquet"), b"{}")
    log = listed(table)
    assert log.segment(3, base=base).checkpoint_id == base.checkpoint_id != log.segment(3).checkpoint_id


@pytest.mark.parametrize("changed", ["deleted", "overwritten"])
@pytest.mark.parametrize("start", [name(2, "checkpoint.parquet"), name(0)])
def test_a_checkpoint_or_first_commit_that_was_deleted_or_overwritten_is_refused(changed, start):
    table = table_with(*commits(3), *([] if start == name(0) else [start]))
    known = listed(table).segment(3)
    table.delete(start) if changed == "deleted" else table.put(start, b"another")
    with pytest.raises(ChangedLogError, match="^Table version 3 can no longer .* Please restart the query.$"):
        listed(table).segment_from_checkpoint(known.checkpoint_id, 3)


def test_a_replaced_log_is_detected_while_the_commit_exists():
    table = table_with(*commits(3), name(3, "checkpoint.parquet"))
    tip = listed(table).tip(3)
    table.put(name(4))
    listed(table).check_tip(3, tip)
    table.put(name(3), b"another")
    with pytest.raises(ChangedLogError, match="^Table version 3 can no longer .* Please restart the query.$"):
        listed(table).check_tip(3, tip)
    table.delete(name(3))
    listed(table).check_tip(3, tip)


def test_the_same_log_at_another_location_is_a_different_log():
    tip = listed(table_with(*commits(3))).tip(3)
    with pytest.raises(ChangedLogError):
        listed(table_with(*commits(3), prefix="elsewhere")).check_tip(3, tip)


def test_a_directory_without_a_log_has_no_table_files():
    with pytest.raises(TableFilesError, match="^table files missing$"):
        latest(table_with("data.parquet"))


def test_a_table_at_the_root_of_a_bucket_has_a_log():
    assert latest(table_with(name(0), prefix="")).version == 0


def test_a_later_listing_starts_at_the_last_known_commit():
    table = table_with(*commits(2500))
    known = latest(table)
    table.put(name(2501))
    table.requests.clear()

    later = later_log(known, table.objects(), table.location)

    assert later is not None
    assert sorted(later.commits) == list(range(2502))
    assert table.requests == ["ListObjectsV2"]


def test_a_later_listing_includes_new_checkpoints_and_compactions():
    table = table_with(*commits(3))
    known = latest(table)
    for later in (name(3, "checkpoint.parquet"), *commits(8)[4:], compaction(4, 6)):
        table.put(later, b"{}")
    log = later_log(known, table.objects(), table.location)
    assert log is not None
    assert names(log.segment(8).checkpoint) == [name(3, "checkpoint.parquet")]
    assert names(log.segment(8).commits) == [compaction(4, 6), name(7), name(8)]


@pytest.mark.parametrize("replacement", [{"at_ms": 1}, {"body": b"another"}, None])
def test_a_log_that_replaced_the_known_one_is_detected(replacement):
    table = table_with(*commits(1))
    known = latest(table)
    if replacement is None:
        table.delete(name(1))
    else:
        table.put(name(1), **{"body": b"{}"} | replacement)
    assert later_log(known, table.objects(), table.location) is None


def test_commit_times_are_adjusted_to_increase():
    table = TableInMemory()
    for version, at_ms in enumerate([100, 50, 100, 101, 500, 500]):
        table.put(name(version), at_ms=at_ms)
    log = listed(table)
    assert log.timestamps == {0: 100, 1: 101, 2: 102, 3: 103, 4: 500, 5: 501}
    assert log.segment(2).timestamp == 102
