import pytest

from core.delta.log import later_log, latest_log, list_log
from core.errors import MalformedRequestError, TableFilesError
from core.storage.location import S3Location
from tests.unit.delta.builder import MemoryObjects, name

TABLE = S3Location("bucket", "some/table")


def objects_with(*names: str, at_ms: dict[str, int] | None = None) -> MemoryObjects:
    objects = MemoryObjects()
    for relative in names:
        objects.put(TABLE.key(relative), b"{}", at_ms=(at_ms or {}).get(relative, 0))
    return objects


def keys(infos) -> list[str]:
    return [info.key.removeprefix("some/table/") for info in infos]


def test_a_segment_begins_with_the_newest_complete_checkpoint():
    objects = objects_with(
        *(name(version) for version in range(8)),
        name(2, "checkpoint.parquet"),
        name(4, "checkpoint.0000000001.0000000002.parquet"),
        name(4, "checkpoint.0000000002.0000000002.parquet"),
        name(6, "checkpoint.0000000001.0000000002.parquet"),
    )
    log = list_log(objects, TABLE)

    newest = log.segment(7)
    assert keys(newest.checkpoint) == [
        name(4, "checkpoint.0000000001.0000000002.parquet"),
        name(4, "checkpoint.0000000002.0000000002.parquet"),
    ]
    assert keys(newest.commits) == [name(5), name(6), name(7)]
    assert keys(log.segment(3).checkpoint) == [name(2, "checkpoint.parquet")]
    assert log.segment(1).checkpoint == ()
    assert keys(log.segment(1).commits) == [name(0), name(1)]


def test_a_checkpoint_may_be_there_twice_whole_and_in_one_part():
    twice = (name(1, "checkpoint.parquet"), name(1, "checkpoint.0000000001.0000000001.parquet"))
    log = list_log(objects_with(name(0), name(1), *twice), TABLE)
    assert len(log.segment(1).checkpoint) == 1


def test_what_is_no_commit_or_classic_checkpoint_is_passed_over():
    objects = objects_with(
        name(0),
        name(0, "crc"),
        name(0, "json.tmp"),
        name(0, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"),
        "_delta_log/00000000000000000000.00000000000000000004.compacted.json",
        "_delta_log/9.json",
        "_delta_log/_commits/00000000000000000001.json",
        "_delta_log/.hidden",
        "_delta_log_of_another/00000000000000000007.json",
    )
    log = list_log(objects, TABLE)
    assert keys(log.commits.values()) == [name(0)]
    assert log.checkpoints == {}


def test_the_hint_spares_the_listing_of_what_lies_before_it():
    objects = objects_with(*(name(version) for version in range(9)), name(7, "checkpoint.parquet"))
    objects.put(TABLE.key("_delta_log/_last_checkpoint"), b'{"version":7,"size":3}')
    log = latest_log(objects, TABLE)
    assert sorted(log.commits) == [7, 8]
    assert sum(asked.startswith("list") for asked in objects.asked) == 1


@pytest.mark.parametrize(
    "hint",
    [b"", b"{", b"[]", b"{}", b'{"version":"7"}', b'{"version":-1}', b'{"version":5}', b'{"version":99}'],
)
def test_a_wrong_hint_is_not_believed(hint):
    objects = objects_with(*(name(version) for version in range(9)), name(7, "checkpoint.parquet"))
    objects.put(TABLE.key("_delta_log/_last_checkpoint"), hint)
    assert latest_log(objects, TABLE) == list_log(objects, TABLE)


@pytest.mark.parametrize(("present", "missing"), [([1, 2], 0), ([0, 2], 1), ([0, 1, 4], 2)])
def test_a_gap_is_named_by_its_version(present, missing):
    log = list_log(objects_with(*(name(version) for version in present)), TABLE)
    with pytest.raises(MalformedRequestError, match=f"the commit of version {missing} is missing"):
        log.segment(log.version)


def test_a_directory_without_a_log_has_no_table_files():
    with pytest.raises(TableFilesError, match="^table files missing$"):
        latest_log(objects_with("data.parquet"), TABLE)


def test_a_table_at_the_root_of_a_bucket_has_a_log():
    objects = MemoryObjects()
    objects.put(name(0))
    assert latest_log(objects, S3Location("bucket", "")).version == 0


def test_a_later_look_lists_from_the_last_known_commit_on():
    objects = objects_with(name(0), name(1))
    known = latest_log(objects, TABLE)
    objects.put(TABLE.key(name(2)))
    objects.asked.clear()

    later = later_log(known, objects, TABLE)

    assert later is not None
    assert sorted(later.commits) == [0, 1, 2]
    assert objects.asked == [f"list some/table/_delta_log/ after some/table/_delta_log/{1:020d}."]


@pytest.mark.parametrize("remade", [{"at_ms": 1}, {"body": b"another"}, None])
def test_a_log_that_took_the_place_of_the_known_one_is_recognised(remade):
    objects = objects_with(name(0), name(1))
    known = latest_log(objects, TABLE)
    if remade is None:
        del objects.objects[TABLE.key(name(1))]
    else:
        objects.put(TABLE.key(name(1)), **{"body": b"{}"} | remade)
    assert later_log(known, objects, TABLE) is None


def test_commit_times_are_made_to_rise():
    times = {name(0): 100, name(1): 50, name(2): 100, name(3): 101, name(4): 500, name(5): 500}
    log = list_log(objects_with(*times, at_ms=times), TABLE)
    assert log.timestamps() == {0: 100, 1: 101, 2: 102, 3: 103, 4: 500, 5: 501}
    assert log.segment(2).timestamp == 102
