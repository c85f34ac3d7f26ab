"""Counts the chunks that a query reads, for each packing order: the reason `core/index/write/order.py` uses a curve.

There are two tables of 100,000 files. One is clustered by two columns, as OPTIMIZE ZORDER BY does: each file holds a
small part of the values of either column. In the other, as in most tables, two columns rise together, such as a number
and a time.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence

from bench.report import Result
from core.delta.model import Metadata
from core.index.write.order import CELLS, Order
from core.index.write.packing import indexed_fields
from core.pruning.columns import FileColumns
from core.pruning.schema import Field

FILES, FILES_PER_CHUNK, VALUES = 100_000, 2000, 10_000
NAMES = ("first", "second")
Minima = Sequence[tuple[int, int]]
"""The minimum of each column, per file. The maximum is slightly larger."""


def results() -> Iterator[Result]:
    rng = random.Random(5)
    clustered = [(rng.randrange(VALUES), rng.randrange(VALUES)) for _ in range(FILES)]
    rising = [(value, value + rng.randrange(10)) for value in (rng.randrange(VALUES) for _ in range(FILES))]
    for table, files in (("clustered by two columns", clustered), ("two columns rise together", rising)):
        for order, keys in ORDERS.items():
            in_order = sorted(range(FILES), key=keys(files).__getitem__)
            read = [_chunks_read([files[number][column] for number in in_order]) for column in range(2)]
            for name, chunks in zip(NAMES, read, strict=True):
                yield Result(f"{table}: {order}, a value of the {name}", round(chunks, 1), f"of {_chunks()} chunks")


def _chunks() -> int:
    return FILES // FILES_PER_CHUNK


def _chunks_read(lows: Sequence[int], width: int = VALUES // 100) -> float:
    """Return the average number of chunks that a query for one value reads."""
    chunks = [lows[begin : begin + FILES_PER_CHUNK] for begin in range(0, FILES, FILES_PER_CHUNK)]
    bounds = [(min(chunk), max(chunk) + width) for chunk in chunks]
    values = range(0, VALUES, 97)
    return sum(low <= value <= high for value in values for low, high in bounds) / len(values)


def _index_order(files: Minima) -> list[tuple[object, ...]]:
    columns = FileColumns([{}] * FILES, [_stats(file) for file in files])
    return Order.of(_fields(), columns).keys(columns)


def _z_order(files: Minima) -> list[int]:
    def spread(value: int) -> int:
        return sum((value * CELLS // VALUES >> bit & 1) << 2 * bit for bit in range(CELLS.bit_length()))

    return [spread(first) | spread(second) << 1 for first, second in files]


def _stats(file: tuple[int, int], width: int = VALUES // 100) -> str:
    low, high = (
        dict(zip(NAMES, file, strict=True)),
        {name: value + width for name, value in zip(NAMES, file, strict=True)},
    )
    return json.dumps({"numRecords": 1, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(NAMES, 0)})


def _fields() -> list[Field]:
    columns = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in NAMES]
    return indexed_fields(Metadata("m", json.dumps({"type": "struct", "fields": columns}), ()))


ORDERS: dict[str, Callable[[Minima], Sequence[object]]] = {
    "sorted by the first": lambda files: [first for first, _ in files],
    "Z-order": _z_order,
    "as an index packs them": _index_order,
}
