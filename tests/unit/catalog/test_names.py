import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.catalog import items, names
from tests.examples import examples

any_name = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("share", "sales"),
        ("share", "Sales.2024"),
        ("share", "vent~as-é_日本%20"),
        ("share", "x" * 255),
        ("share", "..."),
        ("schema", "default"),
        ("table", "Trips_2024"),
        ("recipient", "ann@example.com"),
    ],
)
def test_a_valid_name_has_no_problem(kind, name):
    assert names.problem(kind, name) is None


@pytest.mark.parametrize(
    ("kind", "name", "rule"),
    [
        ("share", "", "empty"),
        ("share", "x" * 256, "255"),
        ("share", "two words", "' '"),
        ("share", "tab\tbed", r"'\t'"),
        ("share", "a/b", "'/'"),
        ("share", "nul\0", r"'\x00'"),
        ("share", "del\x7f", r"'\x7f'"),
        ("share", "c1\x9f", r"'\x9f'"),
        ("share", "no-break\u00a0space", r"'\xa0'"),
        ("share", "line\u2028end", r"'\u2028'"),
        ("share", "lone\ud800", r"'\ud800'"),
        ("share", ".", "'.' or '..'"),
        ("share", "..", "'.' or '..'"),
        ("recipient", "..", "'.' or '..'"),
        ("schema", "a.b", "'.'"),
        ("table", "a.b", "'.'"),
    ],
)
def test_an_invalid_name_has_a_problem_that_names_the_rule(kind, name, rule):
    assert rule in str(names.problem(kind, name))


@pytest.mark.parametrize("spelling", ["SALES", "Sales", "sAlEs"])
def test_spellings_of_one_name_have_one_key(spelling):
    assert names.key(spelling) == names.key("sales")


@pytest.mark.parametrize(("one", "other"), [("straße", "STRASSE"), ("ΛΌΓΟΣ", "λόγοσ"), ("λόγος", "λόγοσ")])
def test_keys_use_full_case_folding(one, other):
    assert names.key(one) == names.key(other)


def test_long_names_that_differ_only_at_the_end_have_different_keys():
    assert names.key("x" * 254 + "a") != names.key("x" * 254 + "b")


@pytest.mark.parametrize("name", ["", "a/b", "\0", "\ud800", "two words"])
def test_an_invalid_name_gets_a_key_that_no_entry_has(name):
    assert names.problem("share", names.key(name)) is not None


@settings(deadline=None, max_examples=examples(200))
@given(any_name, any_name)
def test_every_table_key_fits_into_a_dynamodb_key(schema, table):
    key = items.table_key("share", schema, table)
    assert 0 < len(key.sk.encode()) <= 1024


@settings(deadline=None, max_examples=examples(200))
@given(any_name, any_name)
def test_different_names_have_different_keys(one, other):
    valid = names.problem("share", one) is None and names.problem("share", other) is None
    if valid and one.casefold() != other.casefold():
        assert names.key(one) != names.key(other)
