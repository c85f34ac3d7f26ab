"""Reads YAML with the line of every key, for error messages.

Walks PyYAML's node tree, because the loader's plain values have no lines and hide duplicate keys. Limits the expansion
of aliases, so a small file cannot grow large.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

MAX_NODES = 200_000
MAX_DEPTH = 20

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the root, such as `("shares", 0, "name")`."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class InvalidYamlError(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    lines: dict[KeyPath, int]
    duplicates: list[KeyPath] = field(default_factory=list)
    """Keys that a mapping has twice."""

    def line(self, path: KeyPath) -> int:
        """Returns the line of `path`, or of its nearest parent if the key is missing."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(text: str) -> Document:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        reader = _Reader(loader)
        value = reader.value(root, ()) if root else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidYamlError(mark.line + 1 if mark else 1, error.problem or "not valid YAML") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidYamlError(line, "a control character, which YAML does not allow") from error
    except RecursionError as error:
        raise InvalidYamlError(1, "nested too deeply") from error
    finally:
        loader.dispose()
    return Document(value, reader.lines, reader.duplicates)


class _Reader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._nodes = 0
        self.lines: dict[KeyPath, int] = {}
        self.duplicates: list[KeyPath] = []

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise InvalidYamlError(line, "too large once its aliases are expanded")
        if len(path) > MAX_DEPTH:
            raise InvalidYamlError(line, "nested too deeply")
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if not isinstance(node, yaml.ScalarNode):
            raise InvalidYamlError(line, f"the tag {node.tag} is not supported")
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError, AttributeError) as error:  # such as the date 2024-02-31, or `!!bool x`
            raise InvalidYamlError(line, f"not a valid {node.tag.rpartition(':')[2]}") from error

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        """Ignores keys without a value, like the reference server."""
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise InvalidYamlError(line, "a key must be plain text")
            key = key_node.value
            key_path = (*path, key)
            if key in seen:
                self.duplicates.append(key_path)
            seen.add(key)
            self.lines[key_path] = line
            value = self.value(value_node, key_path)
            if value is not None:
                values[key] = value
        return values
