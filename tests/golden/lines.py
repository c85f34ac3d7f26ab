"""Whether the lines of an answer are the log's own: file by file, in either format, but for URLs and times."""

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
# A client has no commits to look for times in: each line has its own.
NOT_RELAYED = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablement")
RELAYED_OF_VECTOR = ("offset", "sizeInBytes", "cardinality")
KINDS = {"file": "add", "cdf": "cdc"}
"""The lines of parquet format that are not called after the log's action."""

Told = tuple[str, dict[str, Any]]
"""The kind of an action, and what is said of its file."""


def snapshot_difference(answer: Answer, state: State, answer_format: str) -> str | None:
    """How the answer to a query differs from what the log says of a version, if it does."""
    head, files = answer.lines[:2], answer.lines[2:]
    if problem := _head_problem(head, state, answer_format):
        return problem
    told = [_told(line, answer_format) for line in files]
    worded = {_id(path, answer_format) for path, _ in state.struct_stats}
    for _, file in told:
        if file["id"] in worded:
            del file["stats"]
    written = [_written("add", added, answer_format) for added in state.files.values()]
    for _, file in (*told, *written):
        file.pop("dataChange", None)  # it is of its commit: a checkpoint has it false for the same files
    if problem := _difference(sorted(told, key=str), sorted(written, key=str)):
        return problem
    paths = {_id(path, answer_format): path for path, _ in state.files}
    return next((problem for line in files if (problem := _url_problem(line["file"], paths))), None)


def range_difference(answer: Answer, actions: list[tuple[int, str, Action]], answer_format: str) -> str | None:
    """How an answer differs from the actions of a range, each with its version and its kind."""
    files = [line for line in answer.lines[2:] if "metaData" not in line]
    told = [(_file(line)["version"], *_told(line, answer_format)) for line in files]
    written = [(version, *_written(kind, action, answer_format)) for version, kind, action in actions]
    if len(told) == len(written):
        # Old writers said little of a file that they removed; the server may have found out more.
        pairs = zip(told, written, strict=True)
        told = [(version, kind, _present(file, tuple(known))) for (version, kind, file), (_, _, known) in pairs]
    return _difference(told, written)


def _difference(told: list[Any], written: list[Any]) -> str | None:
    if told == written:
        return None
    surplus = [line for line in told if line not in written][:1]
    lacking = [line for line in written if line not in told][:1]
    return f"{len(told)} lines instead of {len(written)}: {surplus} instead of {lacking}"


def _head_problem(head: list[dict[str, Any]], state: State, answer_format: str) -> str | None:
    protocol, told = head[0]["protocol"], head[1]["metaData"]
    metadata = told if answer_format == PARQUET else told["deltaMetadata"]
    read = {
        "id": metadata["id"],
        "schema": [(column["name"], column["type"]) for column in json.loads(metadata["schemaString"])["fields"]],
        "partitionColumns": metadata["partitionColumns"],
        "totals": (told["size"], told["numFiles"]),
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
    """A client may be spared features that the version does not use, never one that it does."""
    told = {feature.lower().removesuffix("-preview") for feature in protocol.get("readerFeatures", ())}
    if protocol["minReaderVersion"] == 2:
        told.add("columnmapping")
    return None if needs(state) <= told else f"reader features {sorted(told)} for {sorted(needs(state))}"


def _file(line: dict[str, Any]) -> dict[str, Any]:
    (file,) = line.values()
    return file


def _told(line: dict[str, Any], answer_format: str) -> Told:
    ((name, file),) = line.items()
    if answer_format == PARQUET:
        kind = KINDS.get(name, name)
        return kind, {"id": file["id"], **_present(file, RELAYED[PARQUET][kind])}
    ((kind, action),) = file["deltaSingleAction"].items()
    told = {"id": file["id"], **_present(action, RELAYED[DELTA][kind])}
    if vector := action.get("deletionVector"):
        told["vector"] = {**_present(vector, RELAYED_OF_VECTOR), "has id": "deletionVectorFileId" in file}
    return kind, told


def _written(kind: str, action: Action, answer_format: str) -> Told:
    told = {"id": _id(action["path"], answer_format), **_present(action, RELAYED[answer_format][kind])}
    if (vector := action.get("deletionVector")) and answer_format == DELTA:
        told["vector"] = {**_present(vector, RELAYED_OF_VECTOR), "has id": vector["storageType"] != "i"}
    return kind, told


def _id(path: str, answer_format: str) -> str:
    return HASHES[answer_format](path.encode()).hexdigest()


def _present(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _url_problem(file: dict[str, Any], paths: Mapping[str, str]) -> str | None:
    url = file["url"] if "url" in file else file["deltaSingleAction"]["add"]["path"]
    opened, path = unquote(urlsplit(url).path), unquote(paths[file["id"]])
    return None if opened.endswith(f"/{path}") else f"a URL that opens {opened} instead of {path}"
