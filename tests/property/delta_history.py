"""Random histories of a Delta table, written to a log, with a simple model of every version.

A history is a list of steps. A step commits changes to files, and may change the shape of the log: write a checkpoint,
compact commits, clean up, or write a wrong hint. The model ignores these shapes.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import strategies as st

from core.delta.model import Add, Cdc, DeletionVector, FileAction, Remove
from core.delta.snapshot import Snapshot
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    Action,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    parquet,
    remove,
    sidecar,
    v2_name,
    vector,
)

PATHS = ["a.parquet", "p=a%20b/b.parquet", "p=ü/c.parquet", "100%25.parquet", "d d.parquet"]
PARTITIONS = [None, "", "x", "ü b"]
VECTORS = ["ab^-aqEH.-t@S}K{vb[*k^", "^-aqEH.-t@S}K{vb[*k^"]
FEED = "delta.enableChangeDataFeed"
NO_ROWS = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
HINT = "_delta_log/_last_checkpoint"
COLUMNS = {"id": "long", "s": "string", "p": "string"}
FIELDS = [{"name": column, "type": kind, "nullable": True, "metadata": {}} for column, kind in COLUMNS.items()]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
PARSED_STATS = pa.struct({"numRecords": pa.int64(), "minValues": pa.struct({"id": pa.int64(), "s": pa.string()})})

CHECKPOINTS = ["classic", "row groups", "struct stats", "in parts", "half of the parts", "v2 json", "v2 parquet"]
SHAPES = [*CHECKPOINTS, "by deltalake", "compacted", "cleaned up", "no hint", "garbage hint", "missing hint"]


@dataclass(frozen=True)
class Change:
    """A change to one path: adds it, replacing a live file, or removes it, whether it is live or not."""

    added: Action | None
    add_first: bool


@dataclass(frozen=True)
class Step:
    changes: dict[str, Change]
    operation: str
    table_name: str | None
    feed: bool
    """Whether the change feed is on. Applies only if the commit has metadata, that is, a table name."""
    other_protocol: bool
    looked_at: bool
    shapes: list[str]
    reach: int
    """How many versions a compaction goes back."""


@dataclass(frozen=True)
class State:
    version: int
    name: str | None = None
    feed: bool = True
    protocol: Action = field(default_factory=lambda: MODERN_PROTOCOL)
    files: dict[str, Action] = field(default_factory=dict)
    """By path, because a valid history has no path twice."""


def metadata_of(state: State) -> Action:
    return metadata(name=state.name, schemaString=SCHEMA, configuration={FEED: str(state.feed).lower()})


def stats_text(rows: int, text: str) -> str:
    """Formatted like converted columns, because an answer must not depend on where statistics come from."""
    stats = {"numRecords": rows, "minValues": {"id": rows, "s": text}}
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def _added(size: int, partition: str | None, stats: str | None, dv: str | None, tag: str | None) -> Action:
    more: dict[str, Any] = {"stats": stats} if stats is not None else {}
    more |= {"deletionVector": vector(dv)} if dv is not None else {}
    more |= {"tags": {"t": tag}, "baseRowId": size} if tag is not None else {}
    return add("", size=size, p=partition, **more)


def step_strategy(
    paths: list[str] = PATHS,
    *,
    changes: int = 4,
    vectors: bool = True,
    feeds: Sequence[bool] = (True, True, True, False),
    shapes: Sequence[str] = SHAPES,
) -> st.SearchStrategy[Step]:
    added = st.builds(
        _added,
        size=st.integers(0, 2**53),
        partition=st.sampled_from(PARTITIONS),
        stats=st.none() | st.builds(stats_text, st.integers(0, 9), st.sampled_from(["", "ü\u2028"])),
        dv=st.none() | st.sampled_from(VECTORS) if vectors else st.none(),
        tag=st.none() | st.sampled_from(["", "x"]),
    )
    change = st.builds(Change, added=st.none() | added, add_first=st.booleans())
    return st.builds(
        Step,
        changes=st.dictionaries(st.sampled_from(paths), change, max_size=changes),
        operation=st.sampled_from(["WRITE", "WRITE", "OPTIMIZE", "UPDATE", "MERGE"]),
        table_name=st.none() | st.sampled_from(["one", "two"]),
        feed=st.sampled_from(feeds),
        other_protocol=st.booleans(),
        looked_at=st.booleans(),
        shapes=st.lists(st.sampled_from(shapes), max_size=2),
        reach=st.integers(1, 4),
    )


STEPS = step_strategy()


class History:
    """A table in memory, with the expected state of each version."""

    def __init__(self, table: TableInMemory) -> None:
        self.table = table
        self.states = [State(0)]
        self.commits: list[list[Action]] = [[MODERN_PROTOCOL, metadata_of(self.latest)]]
        self.earliest = 0
        self.table.commit(0, *self.commits[0])

    @property
    def latest(self) -> State:
        return self.states[-1]

    def commit(self, step: Step) -> None:
        state = replace(self.latest, version=self.latest.version + 1, files=dict(self.latest.files))
        actions: list[Action] = []
        if step.table_name is not None:
            state = replace(state, name=step.table_name, feed=step.feed)
            actions.append(metadata_of(state))
        if step.other_protocol:
            features = [*MODERN_PROTOCOL["protocol"]["writerFeatures"], "appendOnly"]
            state = replace(state, protocol={"protocol": MODERN_PROTOCOL["protocol"] | {"writerFeatures": features}})
            actions.append(state.protocol)
        for path, change in step.changes.items():
            actions += _apply(path, change, state.files, moves=step.operation == "OPTIMIZE")
        if step.operation == "UPDATE":
            actions.append({"cdc": {"path": f"_change_data/{state.version}", "partitionValues": {"p": "x"}, "size": 7}})
        if step.operation == "MERGE":
            actions.append({"commitInfo": {"operation": "MERGE", "operationMetrics": NO_ROWS}})
        self.table.commit(state.version, *actions)
        self.states.append(state)
        self.commits.append(actions)

    def shape(self, how: str, reach: int, *, behind: int = 0) -> None:
        """Changes the shape of the log. A checkpoint is of the latest version, or of one that is `behind` it."""
        version = self.latest.version
        match how:
            case "by deltalake":
                self._checkpoint_by_deltalake()
            case "compacted" if version - reach > 0:
                self.table.put(compaction(version - reach, version), commit(*self._reconciled(version - reach)))
            case "cleaned up":
                self._clean_up()
            case "no hint":
                self.table.s3.objects.pop(self.table.location.key(HINT), None)
            case "garbage hint":
                self.table.put(HINT, b'{"version":')
            case "missing hint":
                self.table.hint(version + 5)
            case _ if how in CHECKPOINTS:
                state = self.states[max(version - behind, self.earliest)]
                for relative, content in self._checkpoint(how, state).items():
                    self.table.put(relative, content)
                self.table.hint(state.version)

    def _checkpoint(self, how: str, state: State) -> dict[str, bytes]:
        version = state.version
        top, files = [state.protocol, metadata_of(state)], list(state.files.values())
        if how == "classic":
            return {name(version, "checkpoint.parquet"): checkpoint(*files, *top)}
        if how == "row groups":
            rows = pq.read_table(BytesIO(checkpoint(*files, *top)))
            return {name(version, "checkpoint.parquet"): parquet(rows, row_group_size=3)}
        if how == "struct stats":
            content = checkpoint(*top, *map(_in_columns, files), stats=None, stats_parsed=PARSED_STATS)
            return {name(version, "checkpoint.parquet"): content}
        if how in ("in parts", "half of the parts"):
            parts = [checkpoint(*top, *files[::2]), checkpoint(*files[1::2])][: 1 if how == "half of the parts" else 2]
            return {
                name(version, f"checkpoint.{number:010d}.0000000002.parquet"): part
                for number, part in enumerate(parts, start=1)
            }
        sidecars = {f"{version}-{part}.parquet": checkpoint(*files[part::3]) for part in (0, 1)}
        rows = [*top, *(sidecar(path, content) for path, content in sidecars.items()), *files[2::3]]
        manifest = commit(*rows) if how == "v2 json" else checkpoint(*rows)
        return {f"_delta_log/_sidecars/{path}": content for path, content in sidecars.items()} | {
            v2_name(version, how.removeprefix("v2 ")): manifest
        }

    def _reconciled(self, first: int) -> list[Action]:
        """The newest action of each file in the commits since `first`."""
        newest: dict[object, Action] = {}
        for actions in self.commits[first:]:
            for action in actions:
                (kind, fields), *_ = action.items()
                file = kind in ("add", "remove")
                key = (fields["path"], json.dumps(fields.get("deletionVector"))) if file else kind
                newest[key] = action
        return [action for action in newest.values() if "cdc" not in action and "commitInfo" not in action]

    def _clean_up(self) -> None:
        """Like Delta, deletes all log files whose version is before the last checkpoint."""
        folder = self.table.location.key("_delta_log/")
        names = {key: key.removeprefix(folder) for key in self.table.s3.objects}
        checkpoints = [
            int(file[:20]) for file in names.values() if ".checkpoint" in file and ".0000000001." not in file
        ]
        if checkpoints:
            self.earliest = max(checkpoints)
            for key, file in names.items():
                if file[:20].isdigit() and int(file[:20]) < self.earliest:
                    del self.table.s3.objects[key]

    def _checkpoint_by_deltalake(self) -> None:
        """deltalake does not replace an existing checkpoint."""
        with tempfile.TemporaryDirectory() as folder:
            self.read_by_deltalake(Path(folder)).create_checkpoint()
            relative = name(self.latest.version, "checkpoint.parquet")
            if (Path(folder) / relative).exists():
                self.table.put(relative, (Path(folder) / relative).read_bytes())

    def read_by_deltalake(self, folder: Path) -> DeltaTable:
        """Leaves out the hint, because `deltalake` trusts a hint to a missing checkpoint."""
        root = self.table.location.key("")
        for key, (body, _) in self.table.s3.objects.items():
            relative = key.removeprefix(root)
            if relative != HINT:
                (folder / relative).parent.mkdir(parents=True, exist_ok=True)
                (folder / relative).write_bytes(body)
        return DeltaTable(folder)


def _apply(path: str, change: Change, files: dict[str, Action], *, moves: bool) -> list[Action]:
    live = files.pop(path, None)
    old = live["add"].get("deletionVector") if live else None
    more = {"deletionVector": old} if old else {}
    removed = remove(path, size=3, partitionValues={"p": "x"}, dataChange=not moves, **more)
    if change.added is None:
        return [removed]
    files[path] = {"add": change.added["add"] | {"path": path, "dataChange": not moves}}
    if live is None or files[path]["add"].get("deletionVector") == old:
        return [files[path]]  # adding a live file replaces it
    return [files[path], removed] if change.add_first else [removed, files[path]]


def _in_columns(file: Action) -> Action:
    fields = dict(file["add"])
    stats = fields.pop("stats", None)
    return {"add": fields | ({"stats_parsed": json.loads(stats)} if stats else {})}


def expected_files(actions: list[Action]) -> list[FileAction]:
    return [_expected_file(action) for action in actions if action.keys() & {"add", "remove", "cdc"}]


def _expected_file(action: Action) -> FileAction:
    (kind, fields), *_ = action.items()
    path, values, size = fields["path"], fields["partitionValues"], fields["size"]
    if kind == "cdc":
        return Cdc(path, values, size)
    dv = fields.get("deletionVector")
    descriptor = dv and DeletionVector("u", dv["pathOrInlineDv"], dv["offset"], dv["sizeInBytes"], dv["cardinality"])
    if kind == "remove":
        return Remove(path, values, size, 1, fields["dataChange"], None, descriptor)
    more = {key: fields[key] for key in ("tags", "baseRowId") if key in fields} or None
    return Add(path, values, size, 5, fields["dataChange"], fields.get("stats"), descriptor, more)


def _as_in_a_checkpoint(add: Add) -> Add:
    """A checkpoint may have `dataChange: false` for every file."""
    return add._replace(data_change=False)


def expected(state: State) -> dict[str, Any]:
    files = [_as_in_a_checkpoint(_expected_file(action)) for action in state.files.values()]
    return {
        "version": state.version,
        "timestamp": 1000 * state.version,
        "name": state.name,
        "writer features": tuple(state.protocol["protocol"]["writerFeatures"]),
        "files": {file.path: file for file in files},
        "totals": (len(files), sum(file.size for file in files), sum(bool(file.deletion_vector) for file in files)),
    }


def seen(snapshot: Snapshot) -> dict[str, Any]:
    adds = list(map(_as_in_a_checkpoint, snapshot.adds()))
    files = {file.path: file for file in adds}
    assert len(files) == len(adds)
    return {
        "version": snapshot.version,
        "timestamp": snapshot.timestamp,
        "name": snapshot.metadata.name,
        "writer features": snapshot.protocol.writer_features,
        "files": files,
        "totals": (snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors),
    }
