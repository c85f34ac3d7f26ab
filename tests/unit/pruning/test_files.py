import pytest

from core.pruning.columns import FileColumns
from core.pruning.files import BY_PARTITION, EVERY, SOME, row_count
from tests.unit.pruning.support import DeletionVector, File, Table, columns_of, with_stats

TABLE = Table({"p": "integer", "c": "long"}, ("p",))


def file(p: int | None, low: int, high: int, nulls: int = 0) -> File:
    text = None if p is None else str(p)
    return with_stats(low, high, nulls)._replace(partition_values={"p": text})


class WithoutStats(FileColumns):
    @property
    def _stats(self):
        raise AssertionError("the statistics were asked for")


def test_a_file_is_left_out_by_its_partition_by_its_statistics_or_not_at_all():
    files = [file(1, 0, 9), file(2, 0, 9), file(1, 5, 9), file(1, 0, 4), file(None, 0, 4)]
    verdicts = TABLE.compile("p = 1 AND c < 5").evaluate(columns_of(files))
    assert list(verdicts) == [SOME, BY_PARTITION, 0, SOME | EVERY, BY_PARTITION]


def test_statistics_are_not_read_where_partition_values_decide():
    columns = WithoutStats([{"p": "2"}, {"p": "1"}], [None, None])
    verdicts = TABLE.compile("p = 1 AND (p = 1 OR c < 5)").evaluate(columns)
    assert list(verdicts) == [BY_PARTITION, SOME | EVERY]


def test_a_predicate_of_nothing_known_keeps_everything_and_counts_nothing():
    predicate = TABLE.compile("f(p) = 1")
    assert list(predicate.evaluate(WithoutStats([{"p": "2"}], [None]))) == [SOME]
    assert predicate.evaluate(columns_of([])) == b""


@pytest.mark.parametrize(
    ("num_records", "deleted", "rows"),
    [
        (10, 0, 10),
        (10, 3, 7),
        (10, 11, 0),
        (-1, 0, 0),
        ("10", 0, None),
        (True, 0, None),
        (1.5, 0, None),
        (None, 3, None),
    ],
)
def test_the_rows_of_a_file_are_those_that_are_not_deleted(num_records, deleted, rows):
    assert row_count(num_records, DeletionVector(deleted) if deleted else None) == rows
