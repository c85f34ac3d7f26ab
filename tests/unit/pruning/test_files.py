import json

import pytest

from core.pruning.columns import FileColumns
from core.pruning.evaluate import BY_PARTITION, EVERY, SOME
from core.pruning.files import FIRST_BATCH, judge, sure_rows
from tests.unit.pruning.support import DeletionVector, File, Table, with_stats

TABLE = Table({"p": "integer", "c": "long"}, ("p",))


def file(p: int | None, low: int, high: int, nulls: int = 0) -> File:
    text = None if p is None else str(p)
    return with_stats(low, high, nulls)._replace(partition_values={"p": text})


class Unparsed(File):
    @property
    def stats(self) -> str:
        raise AssertionError("the statistics were asked for")


def test_a_file_is_left_out_by_its_partition_by_its_statistics_or_not_at_all():
    files = [file(1, 0, 9), file(2, 0, 9), file(1, 5, 9), file(1, 0, 4), file(None, 0, 4)]
    verdicts = [verdict for _, verdict in judge(files, TABLE.compile("p = 1 AND c < 5"))]
    assert verdicts == [SOME, BY_PARTITION, 0, SOME | EVERY, BY_PARTITION]


def test_without_a_predicate_every_row_of_every_file_matches():
    assert [verdict for _, verdict in judge([file(1, 0, 9)], None)] == [SOME | EVERY]


def test_statistics_are_not_read_where_partition_values_decide():
    predicate = TABLE.compile("p = 1 AND (p = 1 OR c < 5)")
    assert [verdict for _, verdict in judge([Unparsed({"p": "2"}), Unparsed({"p": "1"})], predicate)] == [
        BY_PARTITION,
        SOME | EVERY,
    ]


def test_a_predicate_of_nothing_known_keeps_everything_and_counts_nothing():
    predicate = TABLE.compile("f(p) = 1")
    assert [verdict for _, verdict in judge([Unparsed({"p": "2"})], predicate)] == [SOME]
    assert predicate.evaluate(FileColumns([])) == b""


def test_files_are_judged_in_their_order_and_no_more_than_are_asked_for():
    seen = []

    def coming():
        for number in range(100_000):
            seen.append(number)
            yield file(number % 2, number, number)

    judged = judge(coming(), TABLE.compile("p = 0 AND c >= 10"))
    kept = [kept.stats for kept, verdict in (next(judged) for _ in range(20)) if verdict & SOME]
    assert [json.loads(stats)["minValues"]["c"] for stats in kept] == [10, 12, 14, 16, 18]
    assert len(seen) == FIRST_BATCH


def test_many_batches_judge_as_one_does():
    predicate = TABLE.compile("p = 0 AND c >= 10")
    files = [file(number % 3, number, number + 5) for number in range(1000)]
    assert bytes(verdict for _, verdict in judge(files, predicate)) == predicate.evaluate(FileColumns(files))


@pytest.mark.parametrize(
    ("stats", "deleted", "rows"),
    [
        ('{"numRecords":10}', 0, 10),
        ('{"numRecords":10}', 3, 7),
        ('{"numRecords":10}', 11, 0),
        ('{"numRecords":-1}', 0, 0),
        ('{"numRecords":"10"}', 0, 0),
        ('{"numRecords":true}', 0, 0),
        ("{}", 0, 0),
        ("{", 0, 0),
        (None, 0, 0),
    ],
)
def test_rows_that_surely_match_are_those_that_are_not_deleted(stats, deleted, rows):
    counted = File({}, stats, DeletionVector(deleted) if deleted else None)
    assert sure_rows(counted, SOME | EVERY) == rows
    assert sure_rows(counted, SOME) == 0
