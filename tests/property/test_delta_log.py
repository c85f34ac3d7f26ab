"""Random histories of a table: our replay against a plain model and against `deltalake`."""

import json
from dataclasses import dataclass

from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.embedded.ministack import EmbeddedAws
from core.delta.snapshot import Snapshot
from core.delta.tables import DeltaTables
from tests.unit.delta.builder import PROTOCOL, TableInS3, add, checkpoint, metadata, name, remove

PATHS = ["a.parquet", "p=a%20b/b.parquet", "p=ü/c.parquet", "100%25.parquet", "d d.parquet"]
STATS = st.none() | st.integers(0, 9).map(lambda rows: f'{{ "numRecords":{rows}, "note":"ü\\u2028" }}')
ADDS = st.builds(add, st.just(""), size=st.integers(0, 2**53), p=st.sampled_from([None, "", "x", "ü b"]), stats=STATS)


@dataclass(frozen=True)
class Commit:
    files: dict[str, dict | None]
    """For each path that changes, its add; None removes it."""
    table_name: str | None
    checkpoint_after: str


COMMITS = st.builds(
    Commit,
    files=st.dictionaries(st.sampled_from(PATHS), st.none() | ADDS, max_size=4),
    table_name=st.none() | st.sampled_from(["one", "two"]),
    checkpoint_after=st.sampled_from(["no", "no", "by deltalake", "by hand", "in parts", "in part"]),
)


def actions_of(commit: Commit) -> list[dict]:
    files = [
        remove(path) if added is None else {"add": added["add"] | {"path": path}}
        for path, added in commit.files.items()
    ]
    return files if commit.table_name is None else [metadata(name=commit.table_name), *files]


def write_checkpoint(table: TableInS3, version: int, how: str, state: dict[str, dict], table_name: str | None) -> None:
    rows = [PROTOCOL, metadata(name=table_name), *state.values()]
    if how == "by deltalake":
        storage = table.storage()
        DeltaTable(storage.location.uri, storage_options=storage.delta_options()).create_checkpoint()
    elif how == "by hand":
        table.put(name(version, "checkpoint.parquet"), checkpoint(*rows))
        table.put("_delta_log/_last_checkpoint", json.dumps({"version": version, "size": len(rows)}).encode())
    else:
        table.put(name(version, "checkpoint.0000000001.0000000002.parquet"), checkpoint(*rows[::2]))
        if how == "in parts":
            table.put(name(version, "checkpoint.0000000002.0000000002.parquet"), checkpoint(*rows[1::2]))


def seen(snapshot: Snapshot) -> tuple[int, str | None, list[tuple]]:
    return snapshot.version, snapshot.metadata.name, [tuple(file) for file in snapshot.adds()]


def expected(version: int, table_name: str | None, state: dict[str, dict]) -> tuple[int, str | None, list[tuple]]:
    files = [action["add"] for _, action in sorted(state.items())]
    rows = [(f["path"], f["partitionValues"], f["size"], f["modificationTime"], f.get("stats")) for f in files]
    return version, table_name, rows


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits=st.lists(COMMITS, min_size=1, max_size=5))
def test_every_version_is_what_its_commits_made_of_the_table(aws: EmbeddedAws, commits: list[Commit]):
    table, warm = TableInS3(aws), DeltaTables()
    table.commit(0, PROTOCOL, metadata())
    state: dict[str, dict] = {}
    table_name: str | None = None
    history = [expected(0, None, {})]
    for version, commit in enumerate(commits, start=1):
        actions = actions_of(commit)
        table.commit(version, *actions)
        for path in commit.files:
            state.pop(path, None)
        state |= {action["add"]["path"]: action for action in actions if "add" in action}
        table_name = commit.table_name or table_name
        history.append(expected(version, table_name, state))
        assert seen(warm.snapshot(table.storage())) == history[-1]
        if commit.checkpoint_after != "no":
            write_checkpoint(table, version, commit.checkpoint_after, state, table_name)

    storage = table.storage()
    cold = DeltaTables()
    assert seen(cold.snapshot(storage)) == history[-1]
    assert [seen(cold.snapshot(storage, version=version)) for version in range(len(history))] == history
    judged = DeltaTable(storage.location.uri, storage_options=storage.delta_options()).get_add_actions()
    paths_and_sizes = zip(judged.column("path").to_pylist(), judged.column("size_bytes").to_pylist(), strict=True)
    assert sorted(paths_and_sizes) == [(path, size) for path, _, size, *_ in history[-1][2]]
