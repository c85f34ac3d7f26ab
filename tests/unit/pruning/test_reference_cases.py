"""Cases in which the reference server loses rows (JSON predicates in its Standalone path) or prunes nothing."""

from tests.unit.pruning.support import File, Table, column, columns_of, compare, in_partition, op, with_stats

TABLE = Table({"c": "integer"})
IS_NULL = op("isNull", column("c", "int"))


def test_negating_a_possible_match_keeps_the_file():
    """Issue 651 of the reference server: `not(c = 7)` skips a file with values from 5 to 10."""
    assert TABLE.keeps(op("not", compare("c", "equal", "7", "int")), with_stats(5, 10, 0))
    assert not TABLE.keeps(op("not", compare("c", "equal", "7", "int")), with_stats(7, 7, 0))


def test_is_null_uses_the_null_count_even_with_bounds():
    assert TABLE.keeps(IS_NULL, with_stats(5, 10, 1))
    assert not TABLE.keeps(IS_NULL, with_stats(5, 10, 0))


def test_not_null_keeps_a_file_without_statistics():
    """Spark sends IS NOT NULL with every filter."""
    spark_filter = op("and", op("not", IS_NULL), compare("c", "equal", "7", "int"))
    assert TABLE.keeps(op("not", IS_NULL), File({}, None))
    assert TABLE.keeps(spark_filter, File({}, None))
    assert TABLE.keeps(spark_filter, with_stats(5, 10))


def test_many_files_without_statistics_do_not_disable_pruning():
    predicate = TABLE.compile(compare("c", "equal", "7", "int"))
    files = [*[File({}, "{")] * 50, with_stats(8, 9, 0)]
    assert predicate.evaluate(columns_of(files)) == bytes([*[1] * 50, 0])


def test_a_date_as_a_string_prunes():
    """The reference server fails internally and prunes nothing."""
    table = Table({"date": "date"}, ("date",))
    assert not table.keeps("date = '2024-01-05'", in_partition(date="2024-01-06"))


def test_sql_hints_prune_by_data_columns_and_with_or_and_in():
    table = Table({"p": "long", "c": "long"}, ("p",))
    file = with_stats(5, 10, 0)._replace(partition_values={"p": "1"})
    assert not table.keeps("p = 2 OR c = 11", file)
    assert not table.keeps("c IN (1, 2, 11)", file)
