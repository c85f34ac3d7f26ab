"""Log replay: the actions of a log, oldest first, give a snapshot; the newest action of a path wins.

For tables of reader version 1, where a path alone identifies a file (no deletion vectors).
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, TypeVar

from core.delta.actions import Action
from core.delta.features import check_readable
from core.delta.log import LogSegment
from core.delta.paths import relative_key
from core.delta.snapshot import Add, Metadata, Protocol, Snapshot
from core.errors import MalformedRequestError

T = TypeVar("T")


class Replay:
    def __init__(self, base: Snapshot | None = None) -> None:
        self._protocol = base.protocol if base else None
        self._metadata = base.metadata if base else None
        self._live: dict[str, Add] = {add.path: add for add in base.adds()} if base else {}

    def apply(self, actions: Iterable[Action]) -> None:
        try:
            for action in actions:
                self._apply(action)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedRequestError(
                "The table's transaction log has an entry that is not a valid Delta action."
            ) from error

    def _apply(self, action: Action) -> None:
        if (add := action.get("add")) is not None:
            live = _add(add)
            self._live[live.path] = live
        elif (remove := action.get("remove")) is not None:
            self._live.pop(_of_type(str, remove["path"]), None)
        elif (metadata := action.get("metaData")) is not None:
            self._metadata = _metadata(metadata)
        elif (protocol := action.get("protocol")) is not None:
            self._protocol = _protocol(protocol)

    def snapshot(self, segment: LogSegment) -> Snapshot:
        if self._protocol is None:
            raise MalformedRequestError("The table's transaction log has no protocol.")
        check_readable(self._protocol)
        if self._metadata is None:
            raise MalformedRequestError("The table's transaction log has no metadata.")
        # Sorted, because the order must be the same wherever the replay began: tokens of pages count on it.
        adds = tuple(sorted(self._live.values(), key=itemgetter(0)))
        for add in adds:
            relative_key(add.path)  # refuses what cannot be a file of the table, before anything is answered
        return Snapshot(
            version=segment.version,
            timestamp=segment.timestamp,
            protocol=self._protocol,
            metadata=self._metadata,
            num_files=len(adds),
            size=sum(add.size for add in adds),
            adds=adds.__iter__,
        )


def _add(action: dict[str, Any]) -> Add:
    path, partition_values = _of_type(str, action["path"]), _of_type(dict, action["partitionValues"] or {})
    for value in partition_values.values():
        if value is not None:
            _of_type(str, value)
    stats = action.get("stats")
    return Add(
        path,
        partition_values,
        _of_type(int, action["size"]),
        _of_type(int, action["modificationTime"]),
        None if stats is None else _of_type(str, stats),
    )


def _protocol(action: dict[str, Any]) -> Protocol:
    return Protocol(
        min_reader_version=_of_type(int, action["minReaderVersion"]),
        min_writer_version=_of_type(int, action["minWriterVersion"]),
        reader_features=_texts(action.get("readerFeatures")),
        writer_features=_texts(action.get("writerFeatures")),
    )


def _metadata(action: dict[str, Any]) -> Metadata:
    return Metadata(
        id=_of_type(str, action["id"]),
        schema_string=_of_type(str, action["schemaString"]),
        partition_columns=_texts(action.get("partitionColumns")),
        name=action.get("name"),
        description=action.get("description"),
        provider=_of_type(str, action["format"]["provider"]),
        configuration=action.get("configuration") or {},
        created_time=action.get("createdTime"),
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(_of_type(str, value) for value in _of_type(list, values or []))


def _of_type(kind: type[T], value: object) -> T:
    """Exactly: for JSON, a bool is no number."""
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value
