"""What a listing of a log says: which files a version is read from, and when it was made."""

import itertools

import pytest

from core.delta.log.listing import LOOK_BACK, later_log, latest_log, list_log
from core.delta.log.segment import Log
from core.errors import ChangedLogError, MalformedRequestError, TableFilesError
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
def test_a_checkpoint_of_the_second_kind_has_any_name(form):
    log = listed(table_with(*commits(3), v2_name(2, form)))
    assert names(log.segment(3).checkpoint) == [v2_name(2, form)]


@pytest.mark.parametrize(
    "kinds",
    list(itertools.combinations(["checkpoint.parquet", *PARTS, "checkpoint.0000000001.0000000001.parquet"], 3)),
)
def test_of_several_checkpoints_of_a_version_one_is_read_and_it_is_complete(kinds):
    log = listed(table_with(*commits(1), *(name(1, kind) for kind in kinds), v2_name(1, "json")))
    chosen = names(log.segment(1).checkpoint)
    assert chosen
    assert len(chosen) == 1 or chosen == [name(1, part) for part in PARTS]


@pytest.mark.parametrize("empty", ["checkpoint.parquet", PARTS[1]])
def test_a_checkpoint_of_which_a_file_is_empty_is_none(empty):
    """As it is to Spark: somebody began to write it."""
    table = table_with(*commits(1), name(1, PARTS[0]), name(1, empty))
    table.put(name(1, empty), b"")
    assert listed(table).checkpoints == {}


def test_parts_of_two_checkpoints_are_not_mixed():
    of_three = [f"checkpoint.000000000{part}.0000000003.parquet" for part in (2, 3)]
    log = listed(table_with(*commits(1), name(1, PARTS[0]), *(name(1, part) for part in of_three)))
    assert log.checkpoints == {}


def test_what_is_no_commit_checkpoint_or_compaction_is_passed_over():
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
    ids=["used", "widest", "overlapping", "two", "later", "widest that fits", "at the end", "of one", "of none"],
)
def test_commits_are_read_compacted_where_that_is_short_of_the_version(compactions, version, read):
    log = listed(table_with(*commits(6), *(compaction(*span) for span in compactions)))
    # Bounded, because what goes round in circles must not take all memory.
    assert names(itertools.islice(log._commits(0, version), 20)) == read


def test_a_compaction_stands_in_for_commits_that_are_gone():
    log = listed(table_with(name(0), compaction(1, 3), name(4)))
    assert names(log.segment(4).commits) == [name(0), compaction(1, 3), name(4)]
    with pytest.raises(MalformedRequestError, match="the commit of version 1 is missing"):
        log.segment(3)


def test_a_compaction_that_begins_within_a_checkpoint_is_not_read():
    log = listed(table_with(*commits(6), name(3, "checkpoint.parquet"), compaction(2, 5), compaction(4, 5)))
    assert names(log.segment(6).commits) == [compaction(4, 5), name(6)]


def test_the_hint_spares_the_listing_of_what_lies_long_before_it():
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
def test_a_wrong_hint_is_not_believed(hint):
    table = table_with(*commits(8), name(7, "checkpoint.parquet"))
    table.put("_delta_log/_last_checkpoint", hint)
    assert latest(table) == listed(table)


def test_a_stale_hint_costs_nothing_but_a_longer_listing():
    table = table_with(*commits(8), name(3, "checkpoint.parquet"), name(7, "checkpoint.parquet"))
    table.hint(3)
    assert names(latest(table).segment(8).checkpoint) == [name(7, "checkpoint.parquet")]


def test_the_listing_ends_where_commits_do():
    table = table_with(*commits(1), *(f"_delta_log/_sidecars/{number}.parquet" for number in range(5000)))
    listed(table)
    assert table.requests == ["ListObjectsV2"]


@pytest.mark.parametrize(("present", "missing"), [([1, 2], 0), ([0, 2], 1), ([0, 1, 4], 2)])
def test_a_gap_is_named_by_its_version(present, missing):
    log = listed(table_with(*(name(version) for version in present)))
    with pytest.raises(MalformedRequestError, match=f"the commit of version {missing} is missing"):
        log.segment(log.version)
    with pytest.raises(MalformedRequestError, match=f"the commit of version {missing} is missing"):
        log.check_complete()


def test_a_gap_before_the_last_checkpoint_does_no_harm():
    log = listed(table_with(name(3), name(5, "checkpoint.parquet"), name(6)))
    log.check_complete()
    assert (log.earliest_version, log.version) == (5, 6)


def test_a_version_whose_commit_is_gone_is_its_checkpoint():
    log = listed(table_with(name(5, "checkpoint.parquet")))
    segment = log.segment(5)
    assert (names([segment.tip]), segment.commits) == ([name(5, "checkpoint.parquet")], ())


def test_a_segment_is_found_again_by_its_origin_whatever_checkpoints_were_made_since():
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


def test_each_checkpoint_of_a_version_is_an_origin_of_its_own():
    table = table_with(*commits(2), v2_name(1, "json"))
    known = listed(table).segment(2)
    table.put(name(1, "checkpoint.parquet"), b"{}")
    log = listed(table)
    table.put(name(3))
    for looked_at in (log, later_log(log, table.objects(), table.location)):
        assert looked_at is not None
        assert looked_at.segment(2).checkpoint_id != known.checkpoint_id
        assert looked_at.segment_from_checkpoint(known.checkpoint_id, 2) == known


def test_a_segment_after_a_base_has_its_origin():
    table = table_with(*commits(2), name(1, "checkpoint.parquet"))
    base = listed(table).segment(2)
    table.put(name(3))
    table.put(name(3, "checkpoint.parquet"), b"{}")
    log = listed(table)
    assert log.segment(3, base=base).checkpoint_id == base.checkpoint_id != log.segment(3).checkpoint_id


@pytest.mark.parametrize("changed", ["deleted", "overwritten"])
@pytest.mark.parametrize("checkpoint_id", [name(2, "checkpoint.parquet"), name(0)])
def test_from_an_origin_that_is_gone_or_another_one_nothing_is_read(changed, checkpoint_id):
    table = table_with(*commits(3), *([] if checkpoint_id == name(0) else [checkpoint_id]))
    known = listed(table).segment(3)
    table.delete(checkpoint_id) if changed == "deleted" else table.put(checkpoint_id, b"another")
    with pytest.raises(ChangedLogError, match="^Table version 3 cannot .* Please restart the query.$"):
        listed(table).segment_from_checkpoint(known.checkpoint_id, 3)


def test_a_log_is_recognised_by_the_commit_of_a_version_as_long_as_that_is_there():
    table = table_with(*commits(3), name(3, "checkpoint.parquet"))
    tip = listed(table).tip(3)
    table.put(name(4))
    listed(table).check_tip(3, tip)
    table.put(name(3), b"another")
    with pytest.raises(ChangedLogError, match="^Table version 3 cannot .* Please restart the query.$"):
        listed(table).check_tip(3, tip)
    table.delete(name(3))
    listed(table).check_tip(3, tip)


def test_the_log_of_a_table_elsewhere_is_another_one():
    tip = listed(table_with(*commits(3))).tip(3)
    with pytest.raises(ChangedLogError):
        listed(table_with(*commits(3), prefix="elsewhere")).check_tip(3, tip)


def test_a_directory_without_a_log_has_no_table_files():
    with pytest.raises(TableFilesError, match="^table files missing$"):
        latest(table_with("data.parquet"))


def test_a_table_at_the_root_of_a_bucket_has_a_log():
    assert latest(table_with(name(0), prefix="")).version == 0


def test_a_later_look_lists_from_the_last_known_commit_on():
    table = table_with(*commits(2500))
    known = latest(table)
    table.put(name(2501))
    table.requests.clear()

    later = later_log(known, table.objects(), table.location)

    assert later is not None
    assert sorted(later.commits) == list(range(2502))
    assert table.requests == ["ListObjectsV2"]


def test_a_later_look_sees_checkpoints_and_compactions_that_were_made_since():
    table = table_with(*commits(3))
    known = latest(table)
    for later in (name(3, "checkpoint.parquet"), *commits(8)[4:], compaction(4, 6)):
        table.put(later, b"{}")
    log = later_log(known, table.objects(), table.location)
    assert log is not None
    assert names(log.segment(8).checkpoint) == [name(3, "checkpoint.parquet")]
    assert names(log.segment(8).commits) == [compaction(4, 6), name(7), name(8)]


@pytest.mark.parametrize("remade", [{"at_ms": 1}, {"body": b"another"}, None])
def test_a_log_that_took_the_place_of_the_known_one_is_recognised(remade):
    table = table_with(*commits(1))
    known = latest(table)
    if remade is None:
        table.delete(name(1))
    else:
        table.put(name(1), **{"body": b"{}"} | remade)
    assert later_log(known, table.objects(), table.location) is None


def test_commit_times_are_made_to_rise():
    table = TableInMemory()
    for version, at_ms in enumerate([100, 50, 100, 101, 500, 500]):
        table.put(name(version), at_ms=at_ms)
    log = listed(table)
    assert log.timestamps == {0: 100, 1: 101, 2: 102, 3: 103, 4: 500, 5: 501}
    assert log.segment(2).timestamp == 102
