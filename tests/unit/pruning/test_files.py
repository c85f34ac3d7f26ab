import pytest

from core.pruning.columns import FileColumns
from core.pruning.files import ALL_MATCH, MAY_MATCH, PRUNED_BY_PARTITION, row_count
from tests.unit.pruning.support import DeletionVector, File, Table, columns_of, with_stats

TABLE = Table({"p": "integer", "c": "long"}, ("p",))


def file(p: int | None, low: int, high: int, nulls: int = 0) -> File:
    text = None if p is None else str(p)
    return with_stats(low, high, nulls)._replace(partition_values={"p": text})


class WithoutStats(FileColumns):
    @property
    def _stats(self):
        raise AssertionError("the statistics were read")


def test_a_file_is_skipped_by_its_partition_or_its_statistics_or_kept():
    files = [file(1, 0, 9), file(2, 0, 9), file(1, 5, 9), file(1, 0, 4), file(None, 0, 4)]
    truth_values = TABLE.compile("p = 1 AND c < 5").evaluate(columns_of(files))
    assert list(truth_values) == [MAY_MATCH, PRUNED_BY_PARTITION, 0, MAY_MATCH | ALL_MATCH, PRUNED_BY_PARTITION]


def test_statistics_are_not_read_if_partition_values_decide():
    columns = WithoutStats([{"p": "2"}, {"p": "1"}], [None, None])
    truth_values = TABLE.compile("p = 1 AND (p = 1 OR c < 5)").evaluate(columns)
    assert list(truth_values) == [PRUNED_BY_PARTITION, MAY_MATCH | ALL_MATCH]


def test_an_unknown_predicate_keeps_every_file_and_never_matches_all_rows():
    predicate = TABLE.compile("f(p) = 1")
    assert list(predicate.evaluate(WithoutStats([{"p": "2"}], [None]))) == [MAY_MATCH]
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
def test_the_row_count_excludes_deleted_rows(num_records, deleted, rows):
    assert row_count(num_records, DeletionVector(deleted) if deleted else None) == rows
