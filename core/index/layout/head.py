"""The head of an index: the item that names the live build."""

from dataclasses import dataclass
from typing import Any

from core.index.layout.items import attributes, head_key


@dataclass(frozen=True, slots=True)
class Head:
    """The live build of a table's index, with what `sluice index status` shows about it."""

    build: str
    version: int
    files: int
    chunks: int
    content_bytes: int
    built_at: float
    seconds: float


def item_of(table: str, head: Head) -> dict[str, Any]:
    return {
        **attributes(head_key(table)),
        "build": {"S": head.build},
        "version": {"N": str(head.version)},
        "files": {"N": str(head.files)},
        "chunks": {"N": str(head.chunks)},
        "content_bytes": {"N": str(head.content_bytes)},
        "built_at": {"N": str(head.built_at)},
        "seconds": {"N": str(head.seconds)},
    }


def head_of(item: Any) -> Head:
    def number(name: str) -> str:
        return str(item[name]["N"])

    return Head(
        item["build"]["S"],
        int(number("version")),
        int(number("files")),
        int(number("chunks")),
        int(number("content_bytes")),
        float(number("built_at")),
        float(number("seconds")),
    )
