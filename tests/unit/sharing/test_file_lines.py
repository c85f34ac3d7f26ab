"""Frames and lines of files. `tests/property/test_file_lines.py` compares what Arrow and orjson write."""

import json
from typing import Any

import pytest

from core.delta.log.batch import AddBatch, FileBatch
from core.delta.log.checkpoint import Checkpoint
from core.sharing.answers import parquet_answer
from core.sharing.answers.file_lines import delta_files, file_lines, parquet_files
from tests.unit.delta.builder import MODERN_PROTOCOL, Action, add, checkpoint, metadata, vector


def content(line: bytes, kind: str) -> Any:
    assert line.endswith(b"\n")
    document = json.loads(line)
    assert list(document) == [kind]
    return document[kind]


def test_a_file_in_parquet_format_has_a_version_and_timestamp_only_if_they_are_given() -> None:
    fields = {"partitionValues": [{"d": None}, {}], "size": [5, 6], "stats": [None, "{}"]}
    plain, with_stats = file_lines(parquet_files("file", ["u", "v"], ["i", "j"], fields, 99), 2)
    assert content(plain, "file") == {
        "url": "u",
        "id": "i",
        "partitionValues": {"d": None},
        "size": 5,
        "expirationTimestamp": 99,
    }
    assert content(with_stats, "file")["stats"] == "{}"
    (dated,) = file_lines(parquet_files("cdf", ["u"], ["i"], {}, 99, version=3, timestamp=1234), 1)
    assert (content(dated, "cdf")["version"], content(dated, "cdf")["timestamp"]) == (3, 1234)


def test_a_file_in_delta_format_wraps_the_action_of_the_log() -> None:
    wrapped, bare = file_lines(delta_files("remove", ["u", "w"], ["i", "j"], ["v", None], {"size": [5, 6]}, 99), 2)
    assert content(wrapped, "file") == {
        "id": "i",
        "deletionVectorFileId": "v",
        "expirationTimestamp": 99,
        "deltaSingleAction": {"remove": {"path": "u", "size": 5}},
    }
    assert content(bare, "file").keys() == {"id", "expirationTimestamp", "deltaSingleAction"}
    (dated,) = file_lines(delta_files("add", ["u"], ["i"], None, {}, 99, version=3, timestamp=1234), 1)
    assert (content(dated, "file")["version"], content(dated, "file")["timestamp"]) == (3, 1234)


def in_checkpoint(*adds: Action) -> FileBatch:
    ((_, batch),) = Checkpoint([checkpoint(MODERN_PROTOCOL, metadata(), *adds)]).batches()
    return batch


def blocks(files: FileBatch) -> list[bytes]:
    fields = files.add_fields(parquet_answer.FIELDS)
    return list(file_lines(parquet_files("file", files.paths, files.paths, fields, 99), files.num_files))


def test_arrow_writes_all_files_of_a_checkpoint_at_once() -> None:
    (block,) = blocks(in_checkpoint(add("a", stats="{}"), add("b", stats="{}")))
    assert [content(line, "file")["id"] for line in block.splitlines(keepends=True)] == ["a", "b"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            in_checkpoint(add("a", stats="{}"), add("b", stats=None)), id="statistics of one file are missing"
        ),
        pytest.param(in_checkpoint(add("a", stats="{}"), add("\u2028", stats="{}")), id="a path that is not ASCII"),
        pytest.param(AddBatch.of(in_checkpoint(add("a"), add("b")).adds()), id="files from commits"),
    ],
)
def test_orjson_writes_other_files_one_by_one(files: FileBatch) -> None:
    lines = blocks(files)
    assert [content(line, "file")["id"] for line in lines] == list(files.paths)
    assert all(line.isascii() for line in lines)


def test_orjson_writes_deletion_vectors() -> None:
    descriptors = [vector("one"), None]
    framed = delta_files("add", ["u", "v"], ["i", "j"], None, {"deletionVector": descriptors}, 99)
    first, second = file_lines(framed, 2)
    assert content(first, "file")["deltaSingleAction"]["add"]["deletionVector"] == vector("one")
    assert "deletionVector" not in content(second, "file")["deltaSingleAction"]["add"]
