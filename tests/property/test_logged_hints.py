"""Whatever predicate hints a client sends, none of its literals reaches the log."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.api.requests.query import QueryRequest
from core.delta.model import Metadata
from core.runtime.observability import logger, record
from core.sharing.call import Observed
from core.sharing.selection import Selection
from tests.examples import examples
from tests.property.pruning.sql_texts import SqlTexts

TYPES = {"s": "string", "n": "long", "d": "date", "t": "timestamp", "x": "double", "m": "decimal(9,2)", "b": "boolean"}
NESTED = {"type": "struct", "fields": [{"name": "inner", "type": "string", "nullable": True, "metadata": {}}]}
FIELDS = [
    {"name": name, "type": data_type, "nullable": True, "metadata": {}}
    for name, data_type in {**TYPES, "box": NESTED}.items()
]
METADATA = Metadata("m", json.dumps({"type": "struct", "fields": FIELDS}), ("s", "d"))
COLUMNS = [*TYPES, "box.inner"]

# Every literal contains one of these. Neither column names nor reasons do.
WORD, NUMBER = "zqXann", "918273645"
SECRETS = re.compile(f"{WORD}|{NUMBER}", re.IGNORECASE)
LITERALS = [
    *[f"'{WORD}@example.com'", f"'2024-01-01 {WORD}'", f"'$.{WORD}@['", f"'{WORD}[['", f'"{WORD}"', f"'{WORD}''s'"],
    *[NUMBER, f"-{NUMBER}", f"{NUMBER}.5", f"{NUMBER}e9", f"{NUMBER}D", f"{NUMBER * 5}", f"0x{NUMBER}", f"X'{NUMBER}'"],
    *[f"DATE '{WORD}'", f"INTERVAL '{NUMBER}' DAY", f"CAST('{WORD}' AS DATE)", f"CAST('{NUMBER}' AS INT)"],
    *[
        f"`{WORD}`",
        WORD,
        f"{WORD}@example.com",
        f"/* {WORD} */ 1",
        f"-- {WORD}",
        f"r'{WORD}'",
        f"'{WORD}",
        f"\\'{WORD}'",
    ],
    *[f":{WORD}", f"@{WORD}", f"${{{WORD}}}", f"{{{{{WORD}}}}}", f"'{WORD}' COLLATE UNICODE"],
]
FORMS = [
    *["{column} = {literal}", "{literal} < {column}", "{column} <=> {literal}", "{column} <> {literal}"],
    *["{column} IN ({literal}, {literal})", "{column} NOT IN ({literal})", "{column} BETWEEN {literal} AND {literal}"],
    *["{column} LIKE {literal}", "{column} RLIKE {literal}", "startswith({column}, {literal})", "{literal} IS NULL"],
    *["get_json_object({column}, {literal}) = 1", "{column}:{literal} = 1", "{column}[{literal}] = 1"],
    *["upper({column}) = {literal}", "{literal}({column}) = 1", "{literal}.{column} = 1", "{column}.{literal} = 1"],
    *["CASE WHEN {column} = {literal} THEN {literal} END", "{column} = {literal} = {literal}", "{literal}", "{column}"],
    *[
        "CAST({column} AS {literal}) = 1",
        "EXISTS (SELECT {literal} FROM {column})",
        "({column} = {literal}",
        "{column} {literal}",
    ],
]
JSON_TYPES = ["string", "int", "long", "date", "timestamp", "double", "bool", WORD]
TEXTS = [WORD, NUMBER, f"{NUMBER}.5", f"2024-01-01 {WORD}"]

columns = st.sampled_from(COLUMNS)
leaves = st.builds(
    lambda form, column, literal: form.format(column=column, literal=literal),
    st.sampled_from(FORMS),
    columns,
    st.sampled_from(LITERALS),
)
joined = st.builds(
    lambda parts, connector: f" {connector} ".join(f"({part})" for part in parts),
    st.lists(leaves, min_size=1, max_size=3),
    st.sampled_from(["AND", "OR", "AND NOT", ",", ";"]),
)
# Literals in arbitrary text, most of which is no SQL.
garbled = st.builds(
    lambda before, leaf, after: f"{before}{leaf}{after}", st.text(max_size=8), leaves, st.text(max_size=8)
)
odd_sql = st.builds(
    lambda seed, column: re.sub(r"[0-9.]+", NUMBER, SqlTexts(seed, [column]).text()), st.integers(0, 2**32), columns
)
sql_hints = st.lists(st.one_of(leaves, joined, garbled, odd_sql), max_size=4)

json_leaves = st.one_of(
    st.fixed_dictionaries(
        {"op": st.just("column"), "name": st.sampled_from([*COLUMNS, *TEXTS]), "valueType": st.sampled_from(JSON_TYPES)}
    ),
    st.fixed_dictionaries(
        {
            "op": st.just("literal"),
            "value": st.sampled_from([*TEXTS, int(NUMBER), [WORD], {WORD: WORD}]),
            "valueType": st.sampled_from(JSON_TYPES),
        }
    ),
    st.sampled_from([WORD, None, [WORD], {WORD: WORD}, {"op": WORD}, {"op": "column", "name": {WORD: 1}}]),
)
json_operators = st.sampled_from(["equal", "lessThan", "greaterThan", "isNull", "not", "and", "or", "startsWith", WORD])
json_trees = st.recursive(
    json_leaves,
    lambda children: st.fixed_dictionaries({"op": json_operators, "children": st.lists(children, max_size=3)}),
    max_leaves=6,
)
json_hints = st.one_of(
    st.none(), json_trees.map(json.dumps), st.lists(json_trees, max_size=2).map(json.dumps), st.just(f"{{{WORD}")
)

REASONS = re.compile(
    r"it cannot be parsed \(\w+\)|pruning does not support this SQL|the table has no such column|"
    r"the literal has no exact meaning for a column of type \S+|it does not compare a column|it is empty|"
    r"it is empty, or the hints before it have too many tokens|it contains a (NUL character|backslash)|"
    r"it uses CHAR or VARCHAR|it nests type names too deeply|the column has type \S+, not [\w ]+|"
    r"the columns have different types|two columns of type \S+ cannot be compared|the cast may turn values into null|"
    r"statistics do not count nulls of type \S+|type \S+ has no known order|"
    r"without a CAST, the partition value is compared as a string|it is not valid JSON|it is not a predicate|"
    r"the protocol has no such (predicate|column type)|it compares values of different types|"
    r"it does not compare columns or literals|it is not a valid value of a type in the protocol"
)
NAMES = re.compile(rf"(?:{'|'.join(map(re.escape, (*COLUMNS, 'box')))}|\?)", re.IGNORECASE)


@contextmanager
def whole_log() -> Iterator[list[str]]:
    """Collects every line that any logger would write in Lambda, at any level."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logger.registered_formatter.format(record))

    collector, root = Collect(), logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    for each in (root, logger):
        each.addHandler(collector)
    try:
        yield lines
    finally:
        root.setLevel(level)
        for each in (root, logger):
            each.removeHandler(collector)


@settings(max_examples=examples(500), deadline=None)
@given(sql_hints, json_hints)
@example(["get_json_object(s, '$.zqXann@[') = 1"], None)  # sqlglot logs a path that it cannot parse
@example(["n = 'zqXann'", "zqXann = 'zqXann'", "'zqXann", "zqXann (", "s RLIKE 'zqXann'"], '{"op":"zqXann"}')
def test_no_literal_of_a_hint_reaches_the_log(sql: list[str], json_hint: str | None) -> None:
    query = QueryRequest(predicate_hints=tuple(sql), json_predicate_hints=json_hint)
    with whole_log() as lines:
        observed = Observed(hints_ignored=Selection.of(query, METADATA).ignored_parts())
        record("query_table", observed, request_id="", status=200, error_code=None, seconds=0)
    assert any('"message":"request"' in line for line in lines)
    assert not any(SECRETS.search(line) for line in lines)
    for part in observed.hints_ignored:
        names, _, reason = part.rpartition(": ")
        assert REASONS.fullmatch(reason)
        assert all(NAMES.fullmatch(name) for name in names.split(", ") if names)
