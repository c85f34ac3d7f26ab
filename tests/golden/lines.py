"""Compares the lines of an answer with the log, file by file, in either format, except for URLs and times."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.golden.expectation import DELTA, PARQUET, needs
from tests.golden.plain_log import Action, State
from tests.golden.served import Answer

HASHES = {PARQUET: hashlib.md5, DELTA: hashlib.sha256}
RELAYED = {
    PARQUET: {
        "add": ("partitionValues", "size", "stats"),
        "remove": ("partitionValues", "size"),
        "cdc": ("partitionValues", "size"),
    },
    DELTA: {
        "add": (
            *("partitionValues", "size", "modificationTime", "dataChange", "stats"),
            *("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
        ),
        "remove": ("partitionValues", "size", "deletionTimestamp", "dataChange"),
        "cdc": ("partitionValues", "size"),
    },
}
# A client gets no commits, so these properties would be wrong. Each line carries its own time.
NOT_RELAYED = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablement")
RELAYED_OF_VECTOR = ("offset", "sizeInBytes", "cardinality")
ACTIONS = {"file": "add", "cdf": "cdc"}
"""The action in the log, for lines of the parquet format that have another name."""

RelayedFile = tuple[str, dict[str, Any]]
"""The kind of an action and the fields of its file."""


def snapshot_difference(answer: Answer, state: State, answer_format: str) -> str | None:
    """Returns how the answer to a query differs from the log at a version, if it does."""
    head, files = answer.lines[:2], answer.lines[2:]
    if problem := _head_problem(head, state, answer_format):
        return problem
    relayed = [_relayed(line, answer_format) for line in files]
    rewritten = {_id(path, answer_format) for path, _ in state.struct_stats}
    for _, file in relayed:
        if file["id"] in rewritten:
            del file["stats"]
    written = [_written("add", added, answer_format) for added in state.files.values()]
    for _, file in (*relayed, *written):
        file.pop("dataChange", None)  # belongs to the commit: a checkpoint has false for the same file
    if problem := _difference(sorted(relayed, key=str), sorted(written, key=str)):
        return problem
    paths = {_id(path, answer_format): path for path, _ in state.files}
    return next((problem for line in files if (problem := _url_problem(line["file"], paths))), None)


def range_difference(answer: Answer, actions: list[tuple[int, str, Action]], answer_format: str) -> str | None:
    """Returns how an answer differs from the actions of a range (version, kind, action), if it does."""
    files = [line for line in answer.lines[2:] if "metaData" not in line]
    relayed = [(_file(line)["version"], *_relayed(line, answer_format)) for line in files]
    written = [(version, *_written(kind, action, answer_format)) for version, kind, action in actions]
    if len(relayed) == len(written):
        # Old writers recorded little about removed files; the server may add what it found elsewhere.
        pairs = zip(relayed, written, strict=True)
        relayed = [(version, kind, _present(file, tuple(known))) for (version, kind, file), (_, _, known) in pairs]
    return _difference(relayed, written)


def _difference(relayed: list[Any], written: list[Any]) -> str | None:
    if relayed == written:
        return None
    surplus = [line for line in relayed if line not in written][:1]
    lacking = [line for line in written if line not in relayed][:1]
    return f"{len(relayed)} lines instead of {len(written)}: {surplus} instead of {lacking}"


def _head_problem(head: list[dict[str, Any]], state: State, answer_format: str) -> str | None:
    protocol, line = head[0]["protocol"], head[1]["metaData"]
    metadata = line if answer_format == PARQUET else line["deltaMetadata"]
    read = {
        "id": metadata["id"],
        "schema": [(column["name"], column["type"]) for column in json.loads(metadata["schemaString"])["fields"]],
        "partitionColumns": metadata["partitionColumns"],
        "totals": (line["size"], line["numFiles"]),
    }
    written = {
        "id": state.metadata["id"],
        "schema": [(column["name"], column["type"]) for column in state.schema["fields"]],
        "partitionColumns": state.metadata["partitionColumns"],
        "totals": (sum(added["size"] for added in state.files.values()), len(state.files)),
    }
    if answer_format == PARQUET:
        read["protocol"], written["protocol"] = protocol, {"minReaderVersion": 1}
    else:
        properties = {name: value for name, value in state.configuration.items() if not name.startswith(NOT_RELAYED)}
        read["configuration"], written["configuration"] = metadata["configuration"], properties
        read["schemaString"], written["schemaString"] = metadata["schemaString"], state.metadata["schemaString"]
        if problem := _features_problem(protocol["deltaProtocol"], state):
            return problem
    return None if read == written else f"head {read} instead of {written}"


def _features_problem(protocol: dict[str, Any], state: State) -> str | None:
    """The protocol may leave out reader features that the version does not use."""
    named = {feature.lower().removesuffix("-preview") for feature in protocol.get("readerFeatures", ())}
    if protocol["minReaderVersion"] == 2:
        named.add("columnmapping")
    return None if needs(state) <= named else f"reader features {sorted(named)} for {sorted(needs(state))}"


def _file(line: dict[str, Any]) -> dict[str, Any]:
    (file,) = line.values()
    return file


def _relayed(line: dict[str, Any], answer_format: str) -> RelayedFile:
    ((name, file),) = line.items()
    if answer_format == PARQUET:
        kind = ACTIONS.get(name, name)
        return kind, {"id": file["id"], **_present(file, RELAYED[PARQUET][kind])}
    ((kind, action),) = file["deltaSingleAction"].items()
    fields = {"id": file["id"], **_present(action, RELAYED[DELTA][kind])}
    if vector := action.get("deletionVector"):
        fields["vector"] = {**_present(vector, RELAYED_OF_VECTOR), "has id": "deletionVectorFileId" in file}
    return kind, fields


def _written(kind: str, action: Action, answer_format: str) -> RelayedFile:
    fields = {"id": _id(action["path"], answer_format), **_present(action, RELAYED[answer_format][kind])}
    if (vector := action.get("deletionVector")) and answer_format == DELTA:
        fields["vector"] = {**_present(vector, RELAYED_OF_VECTOR), "has id": vector["storageType"] != "i"}
    return kind, fields


def _id(path: str, answer_format: str) -> str:
    return HASHES[answer_format](path.encode()).hexdigest()


def _present(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _url_problem(file: dict[str, Any], paths: Mapping[str, str]) -> str | None:
    url = file["url"] if "url" in file else file["deltaSingleAction"]["add"]["path"]
    opened, path = unquote(urlsplit(url).path), unquote(paths[file["id"]])
    return None if opened.endswith(f"/{path}") else f"a URL that opens {opened} instead of {path}"
