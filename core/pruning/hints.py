"""What `core.sharing.query` calls until it asks `core.pruning.files`."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from core.pruning.columns import FileColumns
from core.pruning.evaluate import SOME
from core.pruning.predicate import compile_predicate

MayMatch: TypeAlias = Callable[[Mapping[str, str | None]], bool]


class _Partition(NamedTuple):
    partition_values: Mapping[str, str | None]
    stats: None = None
    deletion_vector: None = None


def compile_hints(
    json_predicate_hints: str | None, *, schema_string: str, partition_columns: Sequence[str]
) -> MayMatch | None:
    predicate = compile_predicate(
        (), json_predicate_hints, schema_string=schema_string, partition_columns=partition_columns
    )
    if predicate is None or not predicate.uses_partitions:
        return None
    return lambda values: bool(predicate.evaluate(FileColumns([_Partition(values)]))[0] & SOME)
