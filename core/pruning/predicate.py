"""The hints of a request, compiled once into a predicate, which is asked of files in batches of any size."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from core.pruning.columns import Columns
from core.pruning.compiler import Compiler, Note
from core.pruning.evaluate import Node, verdicts
from core.pruning.expressions import And, Expression
from core.pruning.files import BY_PARTITION, SOME
from core.pruning.schema import Schema

# Of each verdict by partition values alone: what it is in the end, and whether statistics may change it.
LEFT_OUT_BY_PARTITION = bytes([BY_PARTITION, *range(1, 256)])
IS_UNDECIDED = bytes([verdict == SOME for verdict in range(256)])


@dataclass(frozen=True, slots=True)
class Predicate:
    root: Node
    notes: tuple[Note, ...]
    uses_partitions: bool
    uses_stats: bool

    def evaluate(self, columns: Columns) -> bytes:
        """A byte for each file: `SOME`, `SOME | EVERY`, 0 or `BY_PARTITION`.

        Statistics are asked for only where partition values leave it undecided.
        """
        if not len(columns):
            return b""
        if not self.uses_partitions:
            return verdicts(self.root, columns, with_stats=True)
        found = verdicts(self.root, columns, with_stats=False)
        undecided = found.translate(IS_UNDECIDED) if self.uses_stats else b""
        joined = bytearray(found.translate(LEFT_OUT_BY_PARTITION))
        if 1 in undecided:
            left = columns.select(undecided) if 0 in undecided else columns
            rows = compress(range(len(columns)), undecided)
            for row, verdict in zip(rows, verdicts(self.root, left, with_stats=True), strict=True):
                joined[row] = verdict
        return bytes(joined)


def compile_predicate(
    sql_hints: Sequence[str],
    json_hints: str | None,
    *,
    schema_string: str,
    partition_columns: Sequence[str],
    column_mapping: bool = False,
) -> Predicate | None:
    """None if there are no hints. A hint that is of no use is in the notes."""
    expressions: list[Expression] = []
    if sql_hints:
        from core.pruning.parsing.sql_hints import parse_sql_hints

        expressions += parse_sql_hints(sql_hints)
    if json_hints:
        from core.pruning.parsing.json_hints import parse_json_hints

        expressions.append(parse_json_hints(json_hints))
    if not expressions:
        return None
    compiler = Compiler(Schema(schema_string, partition_columns, column_mapping=column_mapping))
    root = compiler.compile(And(tuple(expressions)))
    used = {note.used_by for note in compiler.notes}
    return Predicate(
        root,
        tuple(compiler.notes),
        uses_partitions="partition values" in used or "itself" in used,
        uses_stats="statistics" in used,
    )
