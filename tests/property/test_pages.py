"""Random table histories: the pages of an answer together equal the whole answer, and so does a refreshed answer.

Between two pages the table changes: it gets commits, compactions, and checkpoints of any type, also of older versions.
The next page comes from another process, which has cached an older state of the table or nothing at all. A page may end
anywhere, because its answer would be too large otherwise. Half of the tables have an index, and new builds of it while
pages are read.
"""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.delta.log import checkpoint, replay
from core.index.write import packing
from core.sharing import selection
from core.sharing.tables import SharedTables
from tests.examples import examples
from tests.property.delta_history import History, Step, step_strategy
from tests.unit.index.indexed_table import IndexedTable
from tests.unit.sharing.shared_table import DELTA, Ask, Raw, SharedTable

PATHS = [f"p=a%20b/{number}.parquet" for number in range(12)]
# Changes to the log that neither clean up nor overwrite files.
NON_DESTRUCTIVE = [
    "in parts",
    "half of the parts",
    "v2 json",
    "v2 parquet",
    "by deltalake",
    "compacted",
    "no hint",
    "missing hint",
]
LATE_CHECKPOINTS = ["row groups", "in parts", "v2 json", "v2 parquet"]
SIZES = st.integers(1, 5)
CAPABILITIES = ["", DELTA]
HINTS = st.fixed_dictionaries(
    {},
    optional={
        "predicateHints": st.lists(st.sampled_from(["p = 'x'", "p IS NULL", "id < 5", "id < 3 OR p = ''"]), max_size=2),
        "jsonPredicateHints": st.just('{"op":"isNull","children":[{"op":"column","name":"p","valueType":"string"}]}'),
        "limitHint": st.integers(0, 20),
    },
)

histories = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True, params=["default", "tiny"])
def batch_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "tiny":
        monkeypatch.setattr(checkpoint, "BATCH_ROWS", 2)
        monkeypatch.setattr(checkpoint, "DECODED_BYTES", 0)
        monkeypatch.setattr(replay, "BATCH_FILES", 3)
        monkeypatch.setattr(selection, "LIMITED_BATCH", 2)
        monkeypatch.setattr(packing, "CONTENT_BYTES", 5500)


@dataclass
class Table:
    """A table with a history, and the steps that are still to come."""

    env: SharedTable
    history: History
    future: list[Step]
    capabilities: str
    processes: list[SharedTables]
    """Processes other than the one that answers now."""
    index: IndexedTable | None

    def begin(self) -> None:
        """Builds the index. Builds use random numbers, which strategies must not."""
        if self.index:
            self.index.build(full=True)

    def advance(self) -> None:
        """Plays the next step and switches to another process."""
        if self.future:
            step = self.future.pop()
            for shape in step.shapes:  # applies to the version that is being paged
                self.history.shape(shape, step.reach)
            self.history.commit(step)
            for shape in reversed(step.shapes):
                self.history.shape(shape, step.reach)
            if step.looked_at:
                self.env.query(DELTA)
            if self.index and step.reach > 2:
                self.index.build(full=step.reach == 3)
            self.processes.append(self.env.tables)
            if step.reach == 1:
                self.env.restart()
            else:
                self.env.tables = self.processes.pop(0)


def tables(**steps: Any) -> st.SearchStrategy[Table]:
    def table(capabilities: str) -> st.SearchStrategy[Table]:
        vectors = capabilities == DELTA
        past = step_strategy(PATHS, changes=8, vectors=vectors, **steps)
        future = step_strategy(PATHS, changes=8, vectors=vectors, shapes=NON_DESTRUCTIVE, **steps)
        return st.builds(
            table_with_history,
            st.lists(past, min_size=1, max_size=5),
            st.lists(future, max_size=6),
            st.lists(st.tuples(st.sampled_from(LATE_CHECKPOINTS), st.integers(0, 3)), max_size=2),
            st.just(capabilities),
            st.booleans(),
        )

    return st.sampled_from(CAPABILITIES).flatmap(table)


def table_with_history(
    past: list[Step], future: list[Step], late: list[tuple[str, int]], capabilities: str, indexed: bool
) -> Table:
    """`late` are checkpoints that are written after a process has read the whole history."""
    env = SharedTable()
    index = IndexedTable(env.lake) if indexed else None
    if index:
        env.new_process = index.reader
        env.restart()
    history = History(env.lake)
    processes = []
    for step in past:
        history.commit(step)
        if step.looked_at:
            env.query(DELTA)
        for shape in step.shapes:
            history.shape(shape, step.reach)
        if step.reach == 1:
            processes.append(env.tables)
            env.restart()
    if late:
        env.query(DELTA)
        for shape, behind in late:
            history.shape(shape, reach=1, behind=behind)
        processes.insert(0, env.tables)
        env.restart()
    return Table(env, history, future, capabilities, processes, index)


def answer(table: Table, ask: Ask, **body: Any) -> Raw:
    ask(table.capabilities, **body)
    return table.env.raw


def ids(lines: Raw) -> list[bytes]:
    return sorted(line.split(b'"id":')[1][:66] for line in lines if has_url(line))


def has_url(line: bytes) -> bool:
    return b"X-Amz-Signature" in line


class Whim:
    """A meter that ends pages anywhere."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fits(self, lines: bytes) -> bool:
        return bool(lines) and self._random.random() < 0.6

    def add(self, lines: bytes) -> None:
        assert lines


def check_pages(table: Table, ask: Ask, size: int, meter: Whim | None, **body: Any) -> None:
    table.begin()
    unpaged, version = answer(table, ask, **body), table.env.headers["Delta-Table-Version"]
    # Without pages, a process may use a cached snapshot from an older checkpoint, with files in another order.
    *expected, _ = answer(table, ask, maxFiles=10_000, **body)
    assert "limitHint" in body or ids(expected) == ids(unpaged)
    assert expected[:2] == unpaged[:2]
    versions = []

    def between() -> None:
        versions.append(table.env.headers["Delta-Table-Version"])
        table.advance()

    table.env.meter = meter
    pages = table.env.pages(ask, table.capabilities, between=between, maxFiles=size, **body)
    assert all(page[:2] == expected[:2] for page in pages)
    assert [line for page in pages for line in page[2:]] == expected[2:]
    assert set(versions) <= {version}
    sizes = [sum(map(has_url, page)) for page in pages]
    if meter is None:
        assert all(number == size for number in sizes[:-1])
        assert sizes[-1] in range(1 if len(pages) > 1 else 0, size + 1)
    else:  # changes of the metadata after the last file may need a page of their own
        assert all(number in range(1, size + 1) for number in sizes[:-1])


METERS = st.one_of(st.none(), st.builds(Whim, st.integers(0, 2**32)))


@histories
@given(table=tables(), size=SIZES, meter=METERS, body=HINTS, data=st.data())
def test_the_pages_of_a_query_equal_the_whole_answer(
    table: Table, size: int, meter: Whim | None, body: dict[str, Any], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        body |= {"version": data.draw(st.integers(table.history.earliest, table.history.latest.version))}
    check_pages(table, table.env.query, size, meter, **body)


@histories
@given(table=tables(), size=SIZES, meter=METERS, with_protocol=st.booleans(), data=st.data())
def test_the_pages_of_a_stream_equal_the_whole_answer(
    table: Table, size: int, meter: Whim | None, with_protocol: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(table.history.earliest, table.history.latest.version))
    body = {"startingVersion": start, "includeHistoricalProtocol": with_protocol}
    check_pages(table, table.env.query, size, meter, **body)


@histories
@given(table=tables(feeds=[True]), size=SIZES, meter=METERS, with_metadata=st.booleans(), data=st.data())
def test_the_pages_of_a_change_feed_equal_the_whole_answer(
    table: Table, size: int, meter: Whim | None, with_metadata: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(table.history.earliest, table.history.latest.version))
    parameters = {"startingVersion": start, "includeHistoricalMetadata": with_metadata}
    check_pages(table, table.env.changes, size, meter, **parameters)


@histories
@given(table=tables(), body=HINTS)
def test_a_refreshed_answer_has_the_same_head_and_files(table: Table, body: dict[str, Any]) -> None:
    table.begin()
    env = table.env
    token = env.query(table.capabilities, includeRefreshToken=True, **body)[-1]["endStreamAction"]["refreshToken"]
    expected = env.raw[:-1]
    version = env.headers["Delta-Table-Version"]
    while table.future:
        table.advance()
        refreshed = answer(table, env.query, refreshToken=token, **body)
        assert env.headers["Delta-Table-Version"] == version
        assert refreshed[:2] == expected[:2]
        assert ids(refreshed) == ids(expected)
