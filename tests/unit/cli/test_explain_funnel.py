"""How `sluice explain` counts the files of a snapshot by their fate in a query."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.explain.funnel import Count, Fate, Funnel, follow
from core.api.requests.query import QueryRequest
from core.delta.model import Add, DeletionVector, Metadata, Protocol
from core.delta.snapshot import Snapshot
from core.sharing.call import Observed
from core.sharing.selection import Selection
from tests.examples import examples
from tests.unit.delta.builder import numbered

TYPES = {"p": "integer", "c": "long", "flag": "boolean"}
FIELDS = [{"name": name, "type": data_type, "nullable": True, "metadata": {}} for name, data_type in TYPES.items()]
METADATA = Metadata("m", json.dumps({"type": "struct", "fields": FIELDS}), ("p",))


def add(p: int | None = 1, stats: dict[str, Any] | None = None, *, size: int = 100, deleted: int = 0) -> Add:
    vector = DeletionVector("i", "x", None, 1, deleted) if deleted else None
    text = None if stats is None else json.dumps(stats)
    return Add("file", {"p": None if p is None else str(p)}, size, 0, True, text, vector)


def ranged(low: int, high: int, *, nulls: int = 0, rows: int = 10) -> dict[str, Any]:
    return {"numRecords": rows, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}


def snapshot(*batches: list[Add]) -> Snapshot:
    files = [file for batch in batches for file in batch]
    size = sum(file.size for file in files)
    return Snapshot(7, 0, Protocol(1, 2), METADATA, len(files), size, 0, lambda *_: iter(numbered(batches)), "", "")


def funnel(of: Snapshot, *where: str, limit: int | None = None) -> Funnel:
    query = QueryRequest(predicate_hints=where, limit_hint=limit)
    return follow(of, Selection.of(query, METADATA), lambda _: None)


def fate(where: str, file: Add) -> Fate:
    counts = funnel(snapshot([file]), where).fates
    (only,) = [fate for fate, count in counts.items() if count.files]
    return only


def test_each_file_is_counted_under_its_fate():
    files = snapshot(
        [add(2, ranged(0, 9), size=1), add(1, ranged(5, 9), size=20), add(1, ranged(0, 4), size=300)],
        [add(1, ranged(0, 9), size=4000), add(1, size=50_000)],
    )

    found = funnel(files, "p = 1 AND c < 5")

    assert found.version == 7
    assert found.fates == {
        Fate.LEFT_OUT_UNREAD: Count(),
        Fate.LEFT_OUT_BY_PARTITION: Count(1, 1, 10),
        Fate.LEFT_OUT_BY_STATISTICS: Count(1, 20, 10),
        Fate.EVERY_ROW_MATCHES: Count(1, 300, 10),
        Fate.SOME_ROW_MAY_MATCH: Count(1, 4000, 10),
        Fate.UNKNOWN: Count(1, 50_000, 0, files_without_row_count=1),
    }
    assert found.kept == found.listed == Count(3, 54_300, 20, files_without_row_count=1)
    assert found.total == Count(5, 54_321, 40, files_without_row_count=1)


@pytest.mark.parametrize(
    ("where", "stats"),
    [
        ("c < 5", {"numRecords": 10}),
        (
            "c < 5",
            {"numRecords": 10, "minValues": {"flag": True}, "maxValues": {"flag": True}, "nullCount": {"flag": 0}},
        ),
        (
            "flag",
            {"numRecords": 10, "nullCount": {"flag": 0}},
        ),  # as Spark writes them: no ranges of booleans
        ("p = 1 AND c < 5", None),
        ("c IS NULL", {"numRecords": 10, "minValues": {"c": 1}, "maxValues": {"c": 2}}),
        ("f(c) = 1", ranged(0, 9)),
        ("gone = 1", ranged(0, 9)),
    ],
)
def test_a_file_is_unknown_if_it_lacks_statistics_that_the_predicate_needs(where, stats):
    assert fate(where, add(1, stats)) is Fate.UNKNOWN


@pytest.mark.parametrize(
    ("where", "stats", "expected"),
    [
        ("c < 5", ranged(0, 9), Fate.SOME_ROW_MAY_MATCH),
        ("c IS NULL", {"numRecords": 10, "nullCount": {"c": 4}}, Fate.SOME_ROW_MAY_MATCH),
        ("c < 5 OR f(c) = 1", {"numRecords": 10, "nullCount": {"c": 10}}, Fate.SOME_ROW_MAY_MATCH),
        ("p = 1", None, Fate.EVERY_ROW_MATCHES),
        ("p = 1 OR c < 5", None, Fate.EVERY_ROW_MATCHES),
        ("p = 2 AND c < 5", None, Fate.LEFT_OUT_BY_PARTITION),
    ],
)
def test_a_file_is_not_unknown_if_only_unneeded_statistics_are_missing(where, stats, expected):
    assert fate(where, add(1, stats)) is expected


def test_every_part_of_the_predicate_is_reported_with_its_use():
    found = funnel(snapshot(), "p = 1", "c < 5 AND f(c) = 1", "(")
    used = {note.text: note.used_by for note in found.parts}
    assert used == {"p = 1": "partition values", "c < 5": "statistics", "F(c) = 1": None, "(": None}
    assert all(note.ignored_because for note in found.parts if note.used_by is None)


def test_deleted_rows_are_not_counted():
    files = snapshot([add(1, ranged(0, 9, rows=10), deleted=3), add(1, {"numRecords": "10"})])
    assert funnel(files).total == Count(2, 200, 7, files_without_row_count=1)


def test_a_limit_lists_the_same_files_as_a_query():
    files = snapshot([add(1, ranged(0, 9)), add(1, ranged(0, 4)), add(1, ranged(0, 4)), add(2, ranged(0, 4))])
    assert funnel(files, limit=11).listed.files == 2
    assert funnel(files, "p = 1 AND c < 5", limit=5).listed.files == 2
    assert funnel(files, "p = 1 AND c < 5", limit=5).kept.files == 3
    assert funnel(files, limit=0).listed == Count()


def test_progress_is_reported_after_each_batch():
    seen: list[int] = []
    selection = Selection.of(QueryRequest(predicate_hints=("c < 5",)), METADATA)
    follow(snapshot([add(), add()], [], [add()]), selection, seen.append)
    assert seen == [2, 2, 3]


SMALL = st.integers(0, 3)
STATS = st.one_of(
    st.none(),
    st.just({"numRecords": 2}),
    st.builds(
        lambda low, width, nulls: ranged(low, low + width, nulls=nulls, rows=3),
        SMALL,
        SMALL,
        st.sampled_from([0, 1, 3]),
    ),
)
FILES = st.lists(st.lists(st.builds(add, st.one_of(st.none(), SMALL), STATS, deleted=st.integers(0, 1)), max_size=5))
LEAVES = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("pc"), st.sampled_from(["=", "<", ">=", "<>"]), SMALL),
    st.builds("{} IS NULL".format, st.sampled_from("pc")),
    st.just("f(c) = 1"),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=examples(150))
@given(FILES, PREDICATES, st.one_of(st.none(), st.integers(0, 12)))
def test_any_query_lists_the_same_files_and_every_file_is_counted(batches, where, limit):
    of = snapshot(*batches)
    selection = Selection.of(QueryRequest(predicate_hints=(where,), limit_hint=limit), METADATA)
    unlimited = Selection(selection.predicate)

    found = follow(of, selection, lambda _: None)

    def listed(by: Selection) -> int:
        return sum(len(kept.files.paths) for kept in by.kept(of.batches_after(None, 0), Observed()))

    assert found.listed.files == listed(selection)
    assert found.kept.files == listed(unlimited)
    assert found.total.files == of.num_files
