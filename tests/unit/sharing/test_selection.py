import json
from itertools import pairwise

import pytest

from core.api.requests.query import QueryRequest
from core.delta.model import Add, DeletionVector, Metadata
from core.sharing.call import Observed
from core.sharing.selection import LIMITED_BATCH, START, Position, Selection
from tests.unit.delta.builder import numbered

TYPES = {"p": "integer", "c": "long"}
FIELDS = [{"name": name, "type": type_name, "nullable": True, "metadata": {}} for name, type_name in TYPES.items()]
METADATA = Metadata("m", json.dumps({"type": "struct", "fields": FIELDS}), ("p",))


def add(name: str, p: int | None = 1, low: int = 0, high: int = 9, rows: int = 10, deleted: int = 0) -> Add:
    stats = {"numRecords": rows, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 0}}
    vector = DeletionVector("i", "x", None, 1, deleted) if deleted else None
    return Add(name, {"p": None if p is None else str(p)}, 1, 0, True, json.dumps(stats), vector)


def select(hint: str | None = None, limit: int | None = None) -> Selection:
    return Selection.of(QueryRequest(predicate_hints=(hint,) if hint else (), limit_hint=limit), METADATA)


def names(selection: Selection, *batches: list[Add]) -> list[str]:
    kept = selection.kept(numbered(batches), Observed())
    return [path for batch in kept for path in batch.files.paths]


def test_without_hints_all_files_are_kept_in_order():
    assert names(select(), [add("a"), add("b")], [add("c")]) == ["a", "b", "c"]


def test_files_are_pruned_by_partition_values_and_statistics():
    observed = Observed()
    files = [add("a"), add("b", p=2), add("c", low=5), add("d", high=4), add("e", p=None)]
    (kept,) = select("p = 1 AND c < 5").kept(numbered([files]), observed)
    assert kept.files.paths == ["a", "d"]
    assert kept.file_numbers == [1, 4]
    assert observed.files_pruned == 3


def test_deleted_rows_do_not_count_towards_a_limit():
    files = [add("a", rows=10, deleted=9), add("b", rows=10), add("c"), add("d")]
    assert names(select(limit=1), files) == ["a"]
    assert names(select(limit=2), files) == ["a", "b"]
    assert names(select(limit=11), files) == ["a", "b"]
    assert names(select(limit=12), files) == ["a", "b", "c"]


def test_a_limit_of_zero_keeps_no_files():
    assert names(select(limit=0), [add("a")]) == []
    assert names(select("c < 5", limit=0), [add("a")]) == []


def test_files_without_statistics_do_not_count_towards_a_limit():
    unknown = add("a")._replace(stats=None)
    assert names(select(limit=5), [unknown, add("b"), add("c")]) == ["a", "b"]


def test_with_a_predicate_only_files_whose_rows_all_match_count_towards_a_limit():
    files = [add("some", low=0, high=9), add("none", low=9), add("all", low=0, high=4), add("more")]
    assert names(select("c < 5", limit=10), files) == ["some", "all"]
    assert names(select("c < 5 AND f(c) > 1", limit=10), files) == ["some", "all", "more"]
    assert names(select("f(c) > 1", limit=10), files) == ["some", "none", "all", "more"]


def test_no_more_batches_are_read_once_a_limit_is_reached():
    def batches():
        yield from numbered([[add(f"{number}") for number in range(2 * LIMITED_BATCH)]])
        raise AssertionError("a second batch was read")

    kept = select(limit=15).kept(batches(), Observed())
    assert [path for batch in kept for path in batch.files.paths] == ["0", "1"]


@pytest.mark.parametrize(("hint", "limit"), [(None, None), ("c < 500", None), (None, 4321), ("c < 500", 2345)])
def test_continuing_from_any_position_yields_the_remaining_files(hint: str | None, limit: int | None):
    numbers = range(3 * LIMITED_BATCH)
    files = [add(f"{number}", low=number, high=number + number % 3, rows=number % 20) for number in numbers]
    batches = [files[:10], files[10:700], files[700:]]
    selection = select(hint, limit)
    all_names = names(selection, files)
    assert len(all_names) == (768 if hint is None and limit is None else len(all_names))
    position, before = START, 0
    for kept in selection.kept(numbered(batches), Observed()):
        for number, file_number in enumerate(kept.file_numbers):
            position = Position(file_number, position.rows + (kept.rows[number] if kept.rows else 0))
            before += 1
            if file_number % 37 == 0:
                rest = selection.kept(numbered(batches, file_number), Observed(), position.rows)
                assert [path for batch in rest for path in batch.files.paths] == all_names[before:]
    assert before == len(all_names)


def test_ignored_parts_have_a_reason_and_the_columns_but_no_literals():
    assert select("p = 1 AND f(c, 77, p) > 2 AND C = 'ann@example.com'").ignored_parts() == [
        "c, p: pruning does not support this SQL",
        "C: the literal has no exact meaning for a column of type long",
    ]
    assert select("p = 1").ignored_parts() == []


def test_a_name_that_is_no_column_is_not_logged():
    assert select("c = ann AND ann = 1 AND f(ann) = c").ignored_parts() == [
        "c, ?: the table has no such column",
        "?: the table has no such column",
        "c, ?: pruning does not support this SQL",
    ]


def test_ignored_parts_are_logged_once_and_have_a_limited_number_and_length():
    assert select("f(c) = 1 OR f(c) = 2").ignored_parts() == ["c: pruning does not support this SQL"]
    names = [f"name_{number}_{'x' * 100}" for number in range(20)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    wide = Metadata("m", json.dumps({"type": "struct", "fields": fields}), ())
    hints = (" OR ".join(f"f({first}) = g({second})" for first, second in pairwise(names)),)
    ignored = Selection.of(QueryRequest(predicate_hints=hints), wide).ignored_parts()
    assert len(ignored) == 10
    assert all(len(part) < 250 for part in ignored)
