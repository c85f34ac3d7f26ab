"""Which way a snapshot is read, by the state of the process and what a request needs."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.delta.source import ALL_FILES, NO_FILES, Demand, LogState, Way, choose, without_index

MILLION = 1_000_000
WARM = LogState(MILLION, 0, in_memory=True)
COLD = LogState(MILLION, 206_000_000, in_memory=False)
BY_PARTITION: Any = SimpleNamespace(uses_partitions=True, uses_stats=False)
BY_STATISTICS: Any = SimpleNamespace(uses_partitions=False, uses_stats=True)
FEW_FILES = 700
PAGE = Demand(10_000)
LIMIT = Demand(256)


@pytest.mark.parametrize("log", [WARM, COLD])
def test_a_full_listing_comes_from_the_log(log: LogState) -> None:
    assert choose(log, MILLION, ALL_FILES, None).way is Way.LOG


@pytest.mark.parametrize("log", [WARM, COLD])
@pytest.mark.parametrize("predicate", [BY_PARTITION, BY_STATISTICS])
def test_a_selective_query_comes_from_the_index(log: LogState, predicate: Any) -> None:
    for demand in (ALL_FILES, PAGE, LIMIT):
        assert choose(log, FEW_FILES, demand, predicate).way is Way.INDEX


def test_a_predicate_that_leaves_nothing_out_is_like_none() -> None:
    assert choose(WARM, MILLION, ALL_FILES, BY_PARTITION).way is Way.LOG


@pytest.mark.parametrize("demand", [ALL_FILES, PAGE, LIMIT, NO_FILES])
def test_without_a_predicate_a_log_in_memory_needs_no_index(demand: Demand) -> None:
    source = without_index(WARM, demand, None)
    assert source is not None
    assert source.way is Way.LOG


@pytest.mark.parametrize("demand", [PAGE, LIMIT, NO_FILES])
def test_a_process_does_not_open_a_long_log_for_a_few_files(demand: Demand) -> None:
    assert without_index(COLD, demand, None) is None
    assert choose(COLD, MILLION, demand, None).way is Way.INDEX


def test_a_short_log_in_memory_needs_no_index_even_with_a_predicate() -> None:
    short = LogState(1000, 0, in_memory=True)
    assert without_index(short, ALL_FILES, BY_STATISTICS) is not None
    assert without_index(WARM, ALL_FILES, BY_PARTITION) is None


def test_a_log_that_delays_the_first_line_too_long_is_not_opened() -> None:
    huge = LogState(10 * MILLION, 2_000_000_000, in_memory=False)
    source = choose(huge, 10 * MILLION, ALL_FILES, None)
    assert (source.way, source.reason) == (Way.INDEX, "opening the log takes about 12.0 s")
    assert choose(huge._replace(unread_bytes=0, in_memory=True), 10 * MILLION, ALL_FILES, None).way is Way.LOG


def test_the_reason_has_both_estimates() -> None:
    assert choose(COLD, MILLION, ALL_FILES, None).reason == "it takes about 2.47 s, and the index about 6.02 s"
    assert choose(COLD, 0, ALL_FILES, BY_PARTITION).reason == "it takes about 0.02 s, and the log about 3.47 s"


def test_an_empty_table_has_a_way() -> None:
    assert choose(LogState(0, 0, in_memory=False), 0, ALL_FILES, None).way is Way.INDEX
