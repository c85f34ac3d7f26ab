"""How what is wanted differs from what the catalog holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    """As the YAML file spells it."""
    before: Any
    after: Any


def differences_of(current: object | None, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """What changes in an entry that exists; of a new one, what is not empty."""
    for name, after in wanted.items():
        before = getattr(current, name) if current else None
        if (after != before) if current else after:
            first, *others = name.split("_")
            yield Difference(first + "".join(word.capitalize() for word in others), before, after)
