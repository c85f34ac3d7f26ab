"""Compiles the hints of a request into a predicate that is evaluated on batches of files.

A predicate is compiled once per request. Batches may have any size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice

from core.pruning.columns import Columns
from core.pruning.compiler import Compiler, Note
from core.pruning.evaluate import Node, truth_values
from core.pruning.expressions import And, Expression
from core.pruning.files import MAY_MATCH, PRUNED_BY_PARTITION
from core.pruning.schema import Schema

# Translation tables for truth values that come from partition values alone: 0 becomes `PRUNED_BY_PARTITION`, and only
# `MAY_MATCH` is left for statistics to decide.
MARK_PRUNED = bytes([PRUNED_BY_PARTITION, *range(1, 256)])
IS_UNDECIDED = bytes([value == MAY_MATCH for value in range(256)])
# Limits of what a request adds to the log.
MAX_LOGGED_PARTS = 10
MAX_LOGGED_NAMES = 200


@dataclass(frozen=True, slots=True)
class Predicate:
    root: Node
    notes: tuple[Note, ...]
    ignored: tuple[str, ...]
    """For the log: the columns of the first parts that could not be used, each with the reason. No literals."""
    uses_partitions: bool
    uses_stats: bool

    def evaluate(self, columns: Columns) -> bytes:
        """Returns one truth value per file: `MAY_MATCH`, `MAY_MATCH | ALL_MATCH`, 0 or `PRUNED_BY_PARTITION`.

        Reads statistics only for files that the partition values leave undecided.
        """
        if not len(columns):
            return b""
        if not self.uses_partitions:
            return truth_values(self.root, columns, with_stats=True)
        by_partition = truth_values(self.root, columns, with_stats=False)
        undecided = by_partition.translate(IS_UNDECIDED) if self.uses_stats else b""
        result = bytearray(by_partition.translate(MARK_PRUNED))
        if 1 in undecided:
            remaining = columns.select(undecided) if 0 in undecided else columns
            positions = compress(range(len(columns)), undecided)
            for position, value in zip(positions, truth_values(self.root, remaining, with_stats=True), strict=True):
                result[position] = value
        return bytes(result)


def compile_predicate(
    sql_hints: Sequence[str],
    json_hints: str | None,
    *,
    schema_string: str,
    partition_columns: Sequence[str],
    column_mapping: bool = False,
) -> Predicate | None:
    """Returns None if there are no hints. The notes of the predicate say how each part of the hints is used."""
    expressions: list[Expression] = []
    if sql_hints:
        from core.pruning.parsing.sql_hints import parse_sql_hints

        expressions += parse_sql_hints(sql_hints)
    if json_hints:
        from core.pruning.parsing.json_hints import parse_json_hints

        expressions.append(parse_json_hints(json_hints))
    if not expressions:
        return None
    schema = Schema(schema_string, partition_columns, column_mapping=column_mapping)
    compiler = Compiler(schema)
    root = compiler.compile(And(tuple(expressions)))
    used = {note.used_by for note in compiler.notes}
    return Predicate(
        root,
        tuple(compiler.notes),
        _ignored_parts(compiler.notes, schema),
        uses_partitions="partition values" in used or "constants" in used,
        uses_stats="statistics" in used,
    )


def _ignored_parts(notes: Iterable[Note], schema: Schema) -> tuple[str, ...]:
    ignored = dict.fromkeys((note.columns, reason) for note in notes if (reason := note.ignored_because))
    parts = []
    for columns, reason in islice(ignored, MAX_LOGGED_PARTS):
        # A client may write a value where a column belongs. Only names of the table's columns are logged.
        names = dict.fromkeys(".".join(path) if schema.has(path) else "?" for path in columns)
        shown = ", ".join(names)[:MAX_LOGGED_NAMES]
        parts.append(f"{shown}: {reason}" if shown else reason)
    return tuple(dict.fromkeys(parts))
