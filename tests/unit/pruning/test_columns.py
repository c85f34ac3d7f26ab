"""`EagerFileColumns` extracts the same columns as `FileColumns`."""

import json

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from core.pruning.columns import NULL_COUNT, EagerFileColumns, FileColumns
from tests.examples import examples

NAMES = ["a", "b", "nullCount", "minValues"]
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | st.sampled_from(["", 'x",', NULL_COUNT])
COLUMNS = st.dictionaries(st.sampled_from(NAMES), SCALARS | st.just({"a": 1}))
KEYS = st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount", "tightBounds"])
# Members of the statistics in any order, with duplicates.
MEMBERS = st.lists(st.tuples(KEYS, COLUMNS | SCALARS), max_size=6)
USUAL = st.builds(
    lambda *values: [*zip(["numRecords", "minValues", "maxValues", "nullCount"], values, strict=True)],
    st.integers(0, 9),
    *[st.fixed_dictionaries(dict.fromkeys(NAMES, SCALARS))] * 2,
    st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, 1))),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    members = draw(USUAL | MEMBERS | st.builds(lambda usual, more: usual + more, USUAL, MEMBERS))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    comma, colon = separators
    text = "{" + comma.join(f'"{key}"{colon}{json.dumps(value, separators=separators)}' for key, value in members) + "}"
    cut = draw(st.integers(0, len(text)))
    return draw(st.sampled_from([text] * 5 + [text[:cut], text[:cut] + text[cut + 1 :], text + "}", "{" + text[1:]]))


@settings(max_examples=examples(500))
@given(st.lists(texts() | st.none(), max_size=6), st.lists(st.sampled_from(NAMES), unique=True))
@example(['{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":0},"minValues":{"a":9}}'], ["a"])
@example(['{,"nullCount":{"a":1}}', '{"nullCount":{"a":1}}', '[1,"nullCount":2]', "null", ""], ["a"])
def test_eager_columns_equal_lazy_columns(stats: list[str | None], names: list[str]) -> None:
    lazy, eager = FileColumns([{}] * len(stats), stats), EagerFileColumns([{}] * len(stats), stats, names)
    for name in names:
        for path in ((name,), (name, "a")):
            for column in ("minimum", "maximum", "null_count"):
                expected = list(getattr(lazy, column)(path))
                event(f"has a value: {any(value is not None for value in expected)}")
                assert repr(list(getattr(eager, column)(path))) == repr(expected)
    assert repr(list(eager.num_records())) == repr(list(lazy.num_records()))
