"""Answers with an index equal answers from the log alone: every golden table, with an index in every possible state."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from core.delta.tables import DeltaTables
from core.errors import SharingError
from core.index.layout.head import Head
from core.index.layout.root import Root
from tests.conftest import GOLDEN_TABLES
from tests.golden.expectation import DELTA, PARQUET
from tests.golden.folder import GoldenTable, table_parameters
from tests.unit.delta.builder import TableInMemory
from tests.unit.index.indexed_table import IndexedTable, files
from tests.unit.sharing.shared_table import SharedTable

pytestmark = pytest.mark.usefixtures("golden_tables")
CAPABILITIES = {
    PARQUET: "",
    DELTA: "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz,typewidening,varianttype",
}
NUMBER = re.compile(r"byte|short|integer|long|float|double|decimal.*")
VERSION = re.compile(r"(?:\d{20}\.)?(\d{20})\..*")
MAX_HINTED_COLUMNS = 3
COMMITS_BEHIND = (1, 2, 5)

Answers = dict[str, Any]


class GoldenEnvironment(IndexedTable):
    """The log of a golden table in memory, and a process that shares the table."""

    def __init__(self, table: GoldenTable) -> None:
        self.env = SharedTable()
        super().__init__(self.env.lake)
        for file in sorted((table.directory / "_delta_log").rglob("*")):
            if file.is_file():
                self.lake.put(file.relative_to(table.directory).as_posix(), file.read_bytes())

    def serve(self, tables: DeltaTables) -> None:
        self.env.tables = replace(self.env.tables, delta=tables)

    def build_behind(self, commits: int) -> bool:
        """Builds the index as of `commits` commits ago. Returns False if the table cannot be read at that version."""
        latest, log = self.lake, self.lake.location.key("_delta_log/")
        versions = {key: _version(key.removeprefix(log)) for key in latest.s3.objects}
        past = max(version for version in versions.values() if version is not None) - commits
        self.lake = TableInMemory()
        self.lake.s3.objects = {
            key: entry
            for key, entry in latest.s3.objects.items()
            if (version := versions[key]) is None or version <= past
        }
        self.lake.s3.objects.pop(log + "_last_checkpoint", None)
        try:
            return self.build_or_refuse() is not None
        finally:
            self.lake = latest

    def build_or_refuse(self) -> Head | None:
        """Returns None if the table cannot be read, with or without an index."""
        try:
            return self.build()
        except SharingError:
            return None

    def answers(self, tables: DeltaTables) -> Answers:
        """Returns the lines, or the error, in both formats: without a hint and with each hint."""
        self.serve(tables)
        return {
            f"{answer_format} {hint}": self._answer(answer_format, hint)
            for answer_format in CAPABILITIES
            for hint in (None, *_hints(self.lake))
        }

    def _answer(self, answer_format: str, hint: str | None) -> list[str]:
        try:
            self.env.query(CAPABILITIES[answer_format], **({"predicateHints": [hint]} if hint else {}))
        except SharingError as error:
            return [f"{error.status} {error.message}"]
        head, lines = self.env.raw[:2], self.env.raw[2:]
        return [line.decode() for line in (*head, *sorted(lines))]


def _version(name: str) -> int | None:
    found = VERSION.fullmatch(name)
    return int(found[1]) if found else None


def _hints(lake: TableInMemory) -> Iterator[str]:
    """Yields predicates on a few columns: null, equal to, and greater than a value of the first file."""
    try:
        snapshot = DeltaTables().snapshot(lake.storage())
        first = next(snapshot.adds(), None)
    except SharingError:
        return
    fields = json.loads(snapshot.metadata.schema_string)["fields"]
    partitions = set(snapshot.metadata.partition_columns)
    fields.sort(key=lambda field: field["name"] not in partitions)
    for field in [field for field in fields if isinstance(field["type"], str)][:MAX_HINTED_COLUMNS]:
        name, physical = field["name"], field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        yield f"`{name}` IS NULL"
        values = first.partition_values if first and name in partitions else _minima(first.stats if first else None)
        value = values.get(physical)
        if value is not None:
            literal = str(value) if NUMBER.fullmatch(field["type"]) else f"'{value}'"
            yield f"`{name}` = {literal}"
            yield f"`{name}` > {literal}"


def _minima(stats: str | None) -> dict[str, Any]:
    return json.loads(stats or "{}").get("minValues") or {}


@pytest.fixture(params=table_parameters(GOLDEN_TABLES))
def env(request: pytest.FixtureRequest) -> GoldenEnvironment:
    return GoldenEnvironment(request.param)


def test_a_fresh_index_does_not_change_the_answers(env: GoldenEnvironment) -> None:
    head = env.build_or_refuse()
    expected = env.answers(DeltaTables())
    env.dynamodb.requests.clear()
    assert env.answers(env.reader()) == expected
    assert head is None or "Query" in env.dynamodb.requests


def test_an_index_that_is_behind_does_not_change_the_answers(env: GoldenEnvironment) -> None:
    expected = {query: without_data_change(lines) for query, lines in env.answers(DeltaTables()).items()}
    for commits in COMMITS_BEHIND:
        env.dynamodb.items.clear()
        if env.build_behind(commits):
            found = env.answers(env.reader())
            assert {query: without_data_change(lines) for query, lines in found.items()} == expected


def without_data_change(lines: list[str]) -> list[str]:
    """Removes `dataChange`, which belongs to the commit: a later checkpoint has false for the same file."""
    head, files = lines[:2], lines[2:]
    return [*head, *sorted(re.sub(r'"dataChange":(true|false),?', "", line) for line in files)]


def damage_chunks(env: GoldenEnvironment, _: Head) -> None:
    for key in env.keys("C"):
        content = bytearray(env.dynamodb.items[key]["content"]["B"])
        content[-5] ^= 4
        env.dynamodb.items[key]["content"] = {"B": bytes(content)}


def name_chunks_of_another_build(env: GoldenEnvironment, head: Head) -> None:
    """Points the root at chunks that exist, but belong to another table that was once at the same location."""
    other = IndexedTable()
    other.begin(*files(0, 3))
    other_head = other.build()
    root = Root.unpack(env.store.root(env.table, head.build))
    chunks = [chunk._replace(place=chunk.place._replace(build=other_head.build)) for chunk in root.chunks]
    env.dynamodb.items |= {key: other.dynamodb.items[key] for key in other.keys("C")}
    env.writer.put_root(env.table, head.build, replace(root, chunks=chunks).pack())


STATES: dict[str, Callable[[GoldenEnvironment, Head], object]] = {
    "a damaged chunk": damage_chunks,
    "a missing chunk": lambda env, _: env.remove(env.keys("C")),
    "missing buckets": lambda env, _: env.remove(env.keys("K")),
    "a head without a root": lambda env, _: env.remove(env.keys("ROOT")),
    "a root that names chunks of another build": name_chunks_of_another_build,
}


@pytest.mark.parametrize("state", STATES)
def test_an_unusable_index_does_not_change_the_answers(env: GoldenEnvironment, state: str) -> None:
    head = env.build_or_refuse()
    if head is None:
        return
    expected = env.answers(DeltaTables())
    STATES[state](env, head)
    assert env.answers(env.reader()) == expected
