"""Statistics that are reduced to the number of records."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.json import dump_line
from core.api.statistics import reduced_lines, reduced_statistics
from tests.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["numRecords", "a", "x"]), inner),
    max_leaves=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(JSON, st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :")]), st.booleans())
def test_the_number_of_records_is_what_a_parser_finds(
    document: Any, separators: tuple[str, str], ensure_ascii: bool
) -> None:
    stats = json.dumps(document, separators=separators, ensure_ascii=ensure_ascii)
    number = document.get("numRecords") if isinstance(document, dict) else None
    expected = {"numRecords": number} if isinstance(number, int) and not isinstance(number, bool) else None
    reduced = reduced_statistics(stats)
    assert (reduced and json.loads(reduced)) == expected


@pytest.mark.parametrize(
    ("stats", "reduced"),
    [
        (None, None),
        ("", None),
        ("not json", None),
        ('{"numRecords":7}', '{"numRecords":7}'),
        ('{"numRecords":7,"minValues":{"a":1}}', '{"numRecords":7}'),
        ('{"minValues":{"a":1},"numRecords":7}', '{"numRecords":7}'),
        ('{"numRecords":7,"minValues":{"numRecords":1}}', '{"numRecords":7}'),
        ('{"numRecords":7,"numRecords":8}', '{"numRecords":8}'),
        ('{"numRecords":' + "1" * 40 + "}", '{"numRecords":' + "1" * 40 + "}"),
        ('{"numRecords":7.5,"a":1}', None),
        ('{"numRecords":"7"}', None),
        ('{"numRecords":null}', None),
        ('{"a":"numRecords"}', None),
        ('{"numRecords":٣}', None),
    ],
)
def test_statistics_in_any_form(stats: str | None, reduced: str | None) -> None:
    assert reduced_statistics(stats) == reduced


STATS = '{"numRecords":7,"minValues":{"a":"é\u2028"}}'


@pytest.mark.parametrize("kind", ["file", "add", "remove", "cdf"])
@pytest.mark.parametrize("delta", [False, True])
def test_only_the_statistics_of_a_line_change(kind: str, delta: bool) -> None:
    def line(stats: dict[str, str]) -> bytes:
        fields = {"url": "https://x", "partitionValues": {"stats": "a"}, **stats, "size": 5}
        return dump_line({"file": {"id": "1", "deltaSingleAction": {kind: fields}}} if delta else {kind: fields})

    head = dump_line({"protocol": {}}) + dump_line({"metaData": {"configuration": {"stats": STATS}}})
    full, reduced, none = line({"stats": STATS}), line({"stats": '{"numRecords":7}'}), line({})
    assert reduced_lines(head + full + none + line({"stats": "{}"})) == head + reduced + none + none
