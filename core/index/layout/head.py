"""The head of an index: the item that names the live build."""

from dataclasses import dataclass
from typing import Any

from core.index.layout.items import ItemKey

CONTENT = "content"


@dataclass(frozen=True, slots=True)
class Head:
    """Which build of a table's index is live, and what `sluice index status` tells of it."""

    build: str
    version: int
    files: int
    chunks: int
    content_bytes: int
    built_at: float
    seconds: float


def attributes(key: ItemKey) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


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
