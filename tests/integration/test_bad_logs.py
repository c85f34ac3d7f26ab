"""Broken and unusual logs: each gets the right 4xx or the right answer, in process and over HTTP.

`deltalake` must agree on the same files, except for a few logs on which our reader is stricter or more tolerant.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.snapshot import Snapshot
from core.delta.tables import DeltaTables
from core.errors import AnswerTooLargeError, DamagedLogError, SharingError, TableFilesError
from tests.examples import examples
from tests.server import Server, running_server
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    Action,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    parquet,
    paths,
    remove,
    sidecar,
    v2_name,
    vector,
)

TOP = [MODERN_PROTOCOL, metadata()]
NO_SCHEMA = {
    "metaData": {field: value for field, value in metadata()["metaData"].items() if field != "schemaString"},
}
FILES = [add("a", size=1), add("b", size=20, stats='{"numRecords":3}')]
WHOLE = checkpoint(*TOP, *FILES)
HALF = WHOLE[: len(WHOLE) // 2]
HINT = "_delta_log/_last_checkpoint"
LONG_PATH = "x" * 1000
# The timeout of a function.
FUNCTION_SECONDS = 28
BIG_STATS = json.dumps({"numRecords": 1, "note": "x" * 1_000_000})

UNREADABLE, MISSING = "TABLE_UNREADABLE", "RESOURCE_DOES_NOT_EXIST"
Log = dict[str, bytes]


def log(*commits: bytes | list[Action], **files: bytes) -> Log:
    """Returns a log with a first commit of two files, more `commits`, and other `files`."""
    all_commits = [[*TOP, *FILES], *commits]
    contents = [each if isinstance(each, bytes) else commit(*each) for each in all_commits]
    return {name(version): content for version, content in enumerate(contents)} | files


def at_checkpoint(
    content: bytes, *commits: list[Action], file: str = name(1, "checkpoint.parquet"), **files: bytes
) -> Log:
    """Returns a log with all commits from version 0, and a checkpoint of version 1."""
    return log([], *commits, **{file: content}, **files)


# What is unusual, and the live files.
ANSWERED: dict[str, tuple[Log, list[str]]] = {
    "a normal log": (log([add("c")], [remove("a")]), ["b", "c"]),
    "an empty commit": (log(b"", [add("c")]), ["a", "b", "c"]),
    "blank lines and Windows line ends": (log(b"\r\n" + commit(add("c")) + b" \r\n"), ["a", "b", "c"]),
    "no line end after the last action": (log(commit(add("c"))[:-1]), ["a", "b", "c"]),
    "unknown actions and fields": (log([{"someday": {}}, add("c", someday=1)]), ["a", "b", "c"]),
    "a duplicate key": (log(commit(add("c")).replace(b'"path": "c"', b'"path": "x", "path": "c"')), ["a", "b", "c"]),
    "the same metadata twice": (log([metadata(), metadata()]), ["a", "b"]),
    "a replaced metadata without a schema": (
        {name(0): commit(MODERN_PROTOCOL, NO_SCHEMA, *FILES), name(1): commit(metadata())},
        ["a", "b"],
    ),
    "a replaced metadata without a schema in a checkpoint": (
        {name(5, "checkpoint.parquet"): checkpoint(MODERN_PROTOCOL, NO_SCHEMA, *FILES), name(6): commit(metadata())},
        ["a", "b"],
    ),
    "a path of 1,000 characters": (log([add(LONG_PATH)]), ["a", "b", LONG_PATH]),
    "statistics of 1 MB": (log([add("c", stats=BIG_STATS)]), ["a", "b", "c"]),
    "invalid statistics": (log([add("c", stats="{")]), ["a", "b", "c"]),
    "a file of the largest size": (log([add("c", size=2**63 - 1 - 21)]), ["a", "b", "c"]),
    "a hint of garbage": (at_checkpoint(WHOLE, [add("c")], **{HINT: b"\xff{"}), ["a", "b", "c"]),
    "a hint of 0 bytes": (at_checkpoint(WHOLE, [add("c")], **{HINT: b""}), ["a", "b", "c"]),
    "a hint to a checkpoint that is missing": (log([add("c")], **{HINT: b'{"version":1}'}), ["a", "b", "c"]),
    "a hint beyond the end": (at_checkpoint(WHOLE, **{HINT: b'{"version":70}'}), ["a", "b"]),
    "a stale hint": (at_checkpoint(WHOLE, [add("c")], **{HINT: b'{"version":0}'}), ["a", "b", "c"]),
    "a missing part of a checkpoint": (
        at_checkpoint(HALF, [add("c")], file=name(1, "checkpoint.0000000001.0000000002.parquet")),
        ["a", "b", "c"],
    ),
    "a checkpoint of 0 bytes": (at_checkpoint(b"", [add("c")]), ["a", "b", "c"]),
    "a compaction that ends before it begins": (
        log([], [], [], [add("c")], **{compaction(3, 1): b""}),
        ["a", "b", "c"],
    ),
    "a compaction that is not reconciled": (
        log([remove("b")], [add("b", size=20)], [], **{compaction(1, 2): commit(add("b", size=20), remove("b"))}),
        ["a", "b"],
    ),
    "a compaction of the last commit": (log([], [add("c")], **{compaction(1, 2): b""}), ["a", "b", "c"]),
    "a checkpoint without any file": (at_checkpoint(commit(*TOP), [add("c")], file=v2_name(1, "json")), ["c"]),
    "old commits were cleaned up": ({name(5, "checkpoint.parquet"): WHOLE, name(6): commit(add("c"))}, ["a", "b", "c"]),
    "only a checkpoint": ({name(5, "checkpoint.parquet"): WHOLE}, ["a", "b"]),
}
# What is broken, and the code of the error.
REFUSED: dict[str, tuple[Log, str]] = {
    "truncated JSON": (log(commit(add("c"), add("d"))[:-20]), UNREADABLE),
    "truncated within a character": (log(commit(add("c"))[:-3] + "ü".encode()[:1]), UNREADABLE),
    "not UTF-8": (log(commit(add("c")).replace(b'"c"', b'"\xff"')), UNREADABLE),
    "UTF-16": (log(commit(add("c")).decode().encode("utf-16")), UNREADABLE),
    "a commit that is Parquet": (log(WHOLE), UNREADABLE),
    "a commit of zeros": (log(bytes(5000)), UNREADABLE),
    "two metadata actions": (log([metadata(name="one"), metadata(name="two")]), UNREADABLE),
    "two protocols": (log([MODERN_PROTOCOL, PROTOCOL]), UNREADABLE),
    "no protocol": ({name(0): commit(metadata(), *FILES)}, UNREADABLE),
    "no metadata": ({name(0): commit(PROTOCOL, *FILES)}, UNREADABLE),
    "an empty first commit": ({name(0): b""}, UNREADABLE),
    "a missing commit": ({name(0): commit(*TOP), name(2): commit(*FILES)}, UNREADABLE),
    "an invalid schema": (log([metadata(schemaString='{"type":')]), UNREADABLE),
    "a schema of columns without names": (log([metadata(schemaString='{"type":"struct","fields":[{}]}')]), UNREADABLE),
    "JSON of 10,000 levels": (log(b'{"add":' * 10_000 + b"1" + b"}" * 10_000), UNREADABLE),
    "a size of 10**30": (log([add("c", size=10**30)]), UNREADABLE),
    "a size of 2**63": (log([add("c", size=2**63)]), UNREADABLE),
    "a negative size": (log([add("c", size=-1)]), UNREADABLE),
    "a reader version of 10**30": (
        log([{"protocol": {"minReaderVersion": 10**30, "minWriterVersion": 2}}]),
        UNREADABLE,
    ),
    "a checkpoint cut in half": (at_checkpoint(HALF, [add("c")]), UNREADABLE),
    "a hinted checkpoint cut in half": (at_checkpoint(HALF, **{HINT: b'{"version":1}'}), UNREADABLE),
    "a part cut in half": (
        at_checkpoint(
            WHOLE,
            file=name(1, "checkpoint.0000000001.0000000002.parquet"),
            **{name(1, "checkpoint.0000000002.0000000002.parquet"): HALF},
        ),
        UNREADABLE,
    ),
    "a checkpoint that is JSON": (at_checkpoint(commit(*TOP, *FILES)), UNREADABLE),
    "a manifest that is Parquet": (at_checkpoint(WHOLE, file=v2_name(1, "json")), UNREADABLE),
    "a manifest cut in half": (at_checkpoint(commit(*TOP)[:100], file=v2_name(1, "json")), UNREADABLE),
    "a checkpoint with other columns": (at_checkpoint(parquet(pa.table({"id": [1, 2]}))), UNREADABLE),
    "a checkpoint with columns of wrong types": (
        at_checkpoint(checkpoint(*TOP, add("a", size="1"), size=pa.string())),  # type: ignore[arg-type]
        UNREADABLE,
    ),
    "a checkpoint without protocol": (at_checkpoint(checkpoint(metadata(), *FILES)), UNREADABLE),
    "a checkpoint without metadata": (at_checkpoint(checkpoint(MODERN_PROTOCOL, *FILES)), UNREADABLE),
    "a missing sidecar": (
        at_checkpoint(commit(*TOP, sidecar("gone.parquet", WHOLE)), file=v2_name(1, "json")),
        MISSING,
    ),
    "a sidecar cut in half": (
        at_checkpoint(
            commit(*TOP, sidecar("half.parquet", WHOLE)),
            file=v2_name(1, "json"),
            **{"_delta_log/_sidecars/half.parquet": HALF},
        ),
        UNREADABLE,
    ),
    "a sidecar outside the log": (
        at_checkpoint(commit(*TOP, sidecar("s3://elsewhere/x.parquet", WHOLE)), file=v2_name(1, "json")),
        UNREADABLE,
    ),
    "no log": ({"readme.txt": b"no table"}, MISSING),
}
# Logs that Spark reads and `deltalake` does not.
MORE_TOLERANT = {
    "a replaced metadata without a schema",
    "a replaced metadata without a schema in a checkpoint",
}
# Logs that `deltalake` reads.
STRICTER = {"two metadata actions", "two protocols", "a negative size"}


def table_of(files: Log) -> TableInMemory:
    table = TableInMemory()
    for relative, content in files.items():
        table.put(relative, content)
    return table


def write(files: Log, folder: Path) -> None:
    for relative, content in files.items():
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        (folder / relative).write_bytes(content)


def each_read(table: TableInMemory) -> Iterator[Callable[[], object]]:
    """Yields every read that a request may need, at every version that the log may have."""
    storage = table.storage()
    yield lambda: DeltaTables().latest_version(storage)
    yield lambda: checked_paths(DeltaTables().snapshot(storage))
    yield lambda: DeltaTables().version_at_or_after(storage, 0)
    yield lambda: DeltaTables().version_at_or_before(storage, 0)
    for version in range(8):
        yield lambda version=version: checked_paths(DeltaTables().snapshot(storage, version=version))
        yield lambda version=version: list(DeltaTables().commits(storage, version, version))


def checked_paths(snapshot: Snapshot) -> list[str]:
    live = paths(snapshot)
    assert len(live) == snapshot.num_files
    assert sum(add.size for add in snapshot.adds()) == snapshot.size
    return live


def check_nothing_fails(table: TableInMemory) -> None:
    for read in each_read(table):
        try:
            read()
        except SharingError as error:
            assert 400 <= error.status < 500
            for secret in ("delta-tests", "tables/one", "_delta_log", "s3:"):
                assert secret not in error.message


@pytest.mark.parametrize("case", ANSWERED)
def test_an_unusual_log_is_read(case: str, tmp_path: Path) -> None:
    files, live = ANSWERED[case]
    table = table_of(files)
    assert checked_paths(DeltaTables().snapshot(table.storage())) == sorted(live)
    check_nothing_fails(table)
    write(files, tmp_path)
    if case in MORE_TOLERANT:
        with pytest.raises(DeltaError):
            DeltaTable(tmp_path)
    else:
        assert sorted(DeltaTable(tmp_path).get_add_actions().column("path").to_pylist()) == sorted(live)


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_log_is_refused(case: str, tmp_path: Path) -> None:
    files, code = REFUSED[case]
    table = table_of(files)
    with pytest.raises(SharingError) as refused:
        DeltaTables().snapshot(table.storage())
    assert (refused.value.status, refused.value.code) == (400, code)
    check_nothing_fails(table)
    if case not in STRICTER:
        write(files, tmp_path)
        with pytest.raises(DeltaError):
            DeltaTable(tmp_path).get_add_actions()


# What is broken, and where.
POSITIONS_OF_DAMAGE: dict[str, tuple[str, int | None]] = {
    "truncated JSON": (name(1), 2),
    "a commit of zeros": (name(1), 1),
    "two metadata actions": (name(1), 2),
    "a missing commit": (name(1), None),
    "an invalid schema": (name(1), 1),
    "a negative size": (name(1), 1),
    "a checkpoint cut in half": (name(1, "checkpoint.parquet"), None),
    "a part cut in half": (name(1, "checkpoint.0000000002.0000000002.parquet"), None),
    "a checkpoint with columns of wrong types": (name(1, "checkpoint.parquet"), None),
    "a manifest that is Parquet": (v2_name(1, "json"), 1),
    "a manifest cut in half": (v2_name(1, "json"), 1),
    "a sidecar cut in half": ("_delta_log/_sidecars/half.parquet", None),
}


@pytest.mark.parametrize("case", POSITIONS_OF_DAMAGE)
def test_the_provider_learns_which_file_and_line_is_broken(case: str) -> None:
    with pytest.raises(DamagedLogError) as refused:
        DeltaTables().snapshot(table_of(REFUSED[case][0]).storage())
    assert (refused.value.file, refused.value.line) == POSITIONS_OF_DAMAGE[case]
    assert refused.value.problem.startswith(f"{refused.value.file}{', line' if refused.value.line else ':'}")


def test_a_log_that_is_deleted_while_it_is_read_is_reported_as_missing() -> None:
    table = table_of(log(*([add(f"{number}")] for number in range(30))))
    for last in range(1, 31):
        objects = dict(table.s3.objects)
        table.s3.on_get = lambda key, last=last: key.endswith(f"{last:020d}.json") and table.s3.objects.clear()
        with pytest.raises(TableFilesError, match="^table files missing$"):
            checked_paths(DeltaTables().snapshot(table.storage()))
        table.s3.objects.update(objects)


def test_a_hundred_thousand_commits_without_a_checkpoint_are_listed_and_refused() -> None:
    table = table_of({name(version): b"" for version in range(1, 100_000)} | {name(0): commit(*TOP, *FILES)})
    table.put(name(99_999), commit(add("z")))
    tables, storage = DeltaTables(), table.storage()
    started = time.process_time()
    assert tables.latest_version(storage) == 99_999
    assert table.requests == ["GetObject"] + ["ListObjectsV2"] * 100
    with pytest.raises(AnswerTooLargeError, match="needs 100,000 commits") as refused:
        tables.snapshot(storage)
    assert refused.value.status == 400
    (last,) = tables.commits(storage, 99_999, 99_999)
    assert [file.path for file in last.files] == ["z"]
    assert checked_paths(tables.snapshot(storage, version=3)) == ["a", "b"]
    assert time.process_time() - started < FUNCTION_SECONDS


VALID = commit(
    *TOP,
    *FILES,
    add("c", deletionVector=vector("v"), tags={"t": "u"}),
    remove("d", size=1, partitionValues={"p": None}),
    {"cdc": {"path": "e", "partitionValues": {}, "size": 1}},
    {"commitInfo": {"operation": "MERGE", "operationMetrics": {"n": "0"}, "inCommitTimestamp": 5}},
)
POSITIONS = st.integers(0, len(VALID) - 1)
DAMAGE = st.one_of(
    st.builds(lambda start, byte: (start, start + 1, bytes([byte])), POSITIONS, st.integers(0, 255)),
    st.builds(lambda start, count: (start, start + count, b""), POSITIONS, st.integers(1, 200)),
    st.builds(lambda start, inserted: (start, start, inserted), POSITIONS, st.binary(min_size=1, max_size=5)),
    st.builds(
        lambda start, value: (start, start + 1, value),
        POSITIONS,
        st.sampled_from([b"null", b"[]", b"{}", b'""', b"-1", b"\n"]),
    ),
)


@settings(max_examples=examples(150), deadline=None)
@given(damage=st.lists(DAMAGE, min_size=1, max_size=4), as_manifest=st.booleans())
def test_a_commit_with_damage_anywhere_is_refused_or_answered(damage: list[Any], as_manifest: bool) -> None:
    content = VALID
    for start, end, replacement in damage:
        content = content[:start] + replacement + content[end:]
    table = TableInMemory()
    table.put(v2_name(0, "json") if as_manifest else name(0), content)
    check_nothing_fails(table)


PARQUET = {
    "one file": checkpoint(*TOP, *FILES, add("c", deletionVector=vector("v"), tags={"t": "u"}), remove("d")),
    "many files": checkpoint(*TOP, *(add(f"{number}", stats='{"numRecords":1}') for number in range(3000))),
}


@pytest.mark.parametrize("layout", PARQUET)
def test_a_checkpoint_with_damage_anywhere_is_refused_or_answered(layout: str) -> None:
    """The damage is the same in every run, because Arrow's reader may crash the process on a single wrong bit."""
    content = PARQUET[layout]
    rng = random.Random(5)
    for _ in range(40):
        start, end = sorted((rng.randrange(4, len(content)), rng.randrange(4, len(content))))
        replacement = rng.choice([b"", b"", bytes(end - start), rng.randbytes(end - start)])
        table = TableInMemory()
        table.put(name(0, "checkpoint.parquet"), content[:start] + replacement + content[end:])
        table.commit(1, add("z"))
        check_nothing_fails(table)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("bad-logs")
    tables = []
    for number, (files, _) in enumerate([*ANSWERED.values(), *REFUSED.values()]):
        write(files, folder / f"t{number}")
        (folder / f"t{number}" / "_delta_log").mkdir(exist_ok=True)
        tables.append({"name": f"t{number}", "location": str(folder / f"t{number}"), "historyShared": True})
    shares = {"version": 1, "shares": [{"name": "bad", "schemas": [{"name": "logs", "tables": tables}]}]}
    with running_server(folder, shares) as server:
        yield server


NUMBERS = {case: number for number, case in enumerate([*ANSWERED, *REFUSED])}
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}


def call(server: Server, case: str, method: str, route: str, **arguments: Any) -> Any:
    response = server.call(method, f"/shares/bad/schemas/logs/tables/t{NUMBERS[case]}/{route}", **arguments)
    assert response.status_code < 500, response.text
    if response.status_code != 200:
        assert response.json().keys() == {"errorCode", "message"}
        for secret in ("s3:", "sluice-data", "_delta_log", str(server.profile.parent)):
            assert secret not in response.text
    return response


@pytest.mark.parametrize("headers", [{}, DELTA], ids=["parquet", "delta"])
@pytest.mark.parametrize("case", ANSWERED)
def test_a_client_gets_all_files_of_an_unusual_log(served: Server, case: str, headers: dict[str, str]) -> None:
    response = call(served, case, "POST", "query", json={}, headers=headers)
    assert response.status_code == 200, response.text
    kinds = [next(iter(json.loads(line))) for line in response.content.splitlines()]
    assert kinds == ["protocol", "metaData", *["file"] * len(ANSWERED[case][1])]


@pytest.mark.parametrize("case", REFUSED)
def test_a_client_gets_the_error_of_a_broken_log(served: Server, case: str) -> None:
    for method, route, arguments in (("POST", "query", {"json": {}}), ("GET", "metadata", {})):
        response = call(served, case, method, route, **arguments)
        assert (response.status_code, response.json()["errorCode"]) == (400, REFUSED[case][1])
    call(served, case, "GET", "version")
    call(served, case, "POST", "query", json={"startingVersion": 0})
    call(served, case, "GET", "changes", params={"startingVersion": 0})
