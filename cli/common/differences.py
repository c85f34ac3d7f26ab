"""Differences between the wanted state and the catalog."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    """The key in the YAML file."""
    before: Any
    after: Any


def differences_of(current: object | None, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """Returns the changed values of an existing entry, or the non-empty values of a new one."""
    for name, after in wanted.items():
        before = getattr(current, name) if current else None
        if (after != before) if current else after:
            first, *others = name.split("_")
            yield Difference(first + "".join(word.capitalize() for word in others), before, after)
