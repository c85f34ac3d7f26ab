"""Footers that can follow a Parquet file, so that a reader decodes only some of its columns or row groups.

This module stays only until arro3-io can select columns and row groups: `arro3.io.read_parquet` decodes all of them.
Delete it then.

A reader starts at the last footer of a file, which has the offset of each column of each row group from the start of
the file. A second footer that names fewer of them can therefore follow, and the reader never decodes the others. The
module decodes Thrift's compact protocol only as far as these lists. It raises `ValueError` for anything unusual, and
the caller then reads the whole file.

`num_rows` is not part of this: `core.sharing.row_counts` needs it, and the functions that it calls, also then.
"""

from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import compress
from typing import IO, TypeAlias

MAGIC = b"PAR1"

# The footer of a checkpoint of a million files is 0.2 MB and takes 30 ms. A hostile footer of 4 MB takes 3 s.
MAX_FOOTER_BYTES = 4 * 1024 * 1024
MAX_STRUCTS = 20_000
MAX_FIELD = 15
MAX_DEPTH = 32
MAX_VARINT_BYTES = 10

# Types of Thrift's compact protocol that Parquet uses. The type of a boolean field is also its value.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
BOOLEANS = (TRUE, FALSE)
INTEGERS = (I16, I32, I64)

# Field numbers of Parquet's structs: the file, a row group and a schema element. All other fields are dropped, because
# they may refer to dropped columns, as the Arrow schema in the metadata and the sorting columns do.
SCHEMA, ROW_GROUPS, COLUMN_ORDERS, ENCRYPTION, SIGNING_KEY = 2, 4, 7, 8, 9
VERSION, NUM_ROWS, CREATED_BY = 1, 3, 6
COLUMNS = 1
TOTAL_BYTES, GROUP_ROWS, FILE_OFFSET, COMPRESSED_BYTES, ORDINAL = 2, 3, 5, 6, 7
TYPE, REPETITION, NAME, NUM_CHILDREN = 1, 3, 4, 5
REPEATED = 2

Lists: TypeAlias = "dict[int, Lists] | None"
"""The fields of a struct whose lists of structs are decoded, with the same for the inner structs. None keeps bytes."""
LISTS: dict[int, Lists] = {SCHEMA: {}, ROW_GROUPS: {COLUMNS: None}, COLUMN_ORDERS: None}

Value: TypeAlias = "bytes | list[Value] | Struct"
"""Bytes are values that stay encoded."""
Struct: TypeAlias = "dict[int, tuple[int, Value]]"
"""Types and values by field number."""
Path: TypeAlias = tuple[str, ...]


def narrowed_footer(file: bytes | IO[bytes], wanted: Callable[[Path], bool]) -> bytes:
    """Returns the bytes to append to `file` so that it has only the wanted leaves, such as ("add", "path").

    A list or map stays whole if any part of it is wanted. Raises `ValueError` if the footer is unusual.
    """
    encoded = _footer(BytesIO(file) if isinstance(file, bytes) else file)
    try:
        footer, _ = _struct(encoded, 0, LISTS)
    except IndexError as problem:
        raise ValueError("the footer is truncated") from problem
    return _with_magic(_narrowed(footer, wanted))


class RowGroups:
    """The row groups of a Parquet file. Raises `ValueError` if the footer is unusual."""

    def __init__(self, file: bytes | IO[bytes]) -> None:
        encoded = _footer(BytesIO(file) if isinstance(file, bytes) else file)
        try:
            self._footer, _ = _struct(encoded, 0, {ROW_GROUPS: {}})
        except IndexError as problem:
            raise ValueError("the footer is truncated") from problem
        if ENCRYPTION in self._footer or SIGNING_KEY in self._footer:
            raise ValueError("the file is encrypted")
        groups = _structs(self._footer, ROW_GROUPS)
        self.rows = [_integer(group, GROUP_ROWS) for group in groups]
        if min(self.rows, default=0) < 0 or sum(self.rows) != _integer(self._footer, NUM_ROWS):
            raise ValueError("the numbers of rows do not add up")
        self._groups: list[Value] = [_encoded(group) for group in groups]

    def footer_from(self, first: int) -> bytes:
        """Returns the bytes to append to the file so that it begins with its row group number `first`."""
        rows = I64, _varint_of(sum(self.rows[first:]) << 1)
        return _with_magic({**self._footer, NUM_ROWS: rows, ROW_GROUPS: (LIST, self._groups[first:])})


def num_rows(footer: bytes) -> int:
    """Returns the number of rows of a file. The start of its footer, up to this number, is enough."""
    at, number = 0, 0
    try:
        while head := footer[at]:
            type_id, at = head & 15, at + 1
            if head > 15:
                number += head >> 4
            else:
                unsigned, at = _varint(footer, at)
                number = _signed(unsigned)
            if number == NUM_ROWS and type_id in INTEGERS:
                return _signed(_varint(footer, at)[0])
            at = at if type_id in BOOLEANS else _end(footer, at, type_id, MAX_DEPTH)
    except IndexError as problem:
        raise ValueError("the footer is truncated") from problem
    raise ValueError("the footer has no number of rows")


def _footer(file: IO[bytes]) -> bytes:
    end = file.seek(0, 2)
    file.seek(max(0, end - 8))
    tail = file.read(8)
    size = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or size > min(end - 8, MAX_FOOTER_BYTES):
        raise ValueError("the Parquet footer is missing, encrypted or too large")
    file.seek(end - 8 - size)
    return file.read(size)


def _with_magic(footer: Struct) -> bytes:
    encoded = _encoded(footer)
    return encoded + len(encoded).to_bytes(4, "little") + MAGIC


def _narrowed(footer: Struct, wanted: Callable[[Path], bool]) -> Struct:
    if ENCRYPTION in footer or SIGNING_KEY in footer:
        raise ValueError("the file is encrypted")
    schema = _Schema(_structs(footer, SCHEMA), wanted)
    narrowed = _only(footer, (VERSION, NUM_ROWS, CREATED_BY))
    narrowed[SCHEMA] = LIST, [*schema.narrowed()]
    narrowed[ROW_GROUPS] = LIST, [_narrowed_group(group, schema.kept) for group in _structs(footer, ROW_GROUPS)]
    if COLUMN_ORDERS in footer:
        narrowed[COLUMN_ORDERS] = LIST, _kept(footer, COLUMN_ORDERS, schema.kept)
    return narrowed


def _narrowed_group(group: Struct, kept: list[bool]) -> Struct:
    narrowed = _only(group, (TOTAL_BYTES, GROUP_ROWS, FILE_OFFSET, COMPRESSED_BYTES, ORDINAL))
    narrowed[COLUMNS] = LIST, _kept(group, COLUMNS, kept)
    return narrowed


class _Schema:
    """The elements of a schema: a tree in depth-first order, parents before children."""

    def __init__(self, elements: list[Struct], wanted: Callable[[Path], bool]) -> None:
        self._elements = elements
        self._wanted = wanted
        self._next = 0
        self.kept: list[bool] = []
        """For each leaf, in column order, whether it is kept."""

    def narrowed(self) -> list[Struct]:
        root = self._take()
        below = self._below(root, ())
        if self._next < len(self._elements):
            raise ValueError("the schema is not a tree")
        return [_with_children(root, len(below)), *(element for child in below for element in child)]

    def _below(self, parent: Struct, path: Path) -> list[list[Struct]]:
        children = (self._subtree(path) for _ in range(_integer(parent, NUM_CHILDREN)))
        return [child for child in children if child]

    def _subtree(self, path: Path) -> list[Struct]:
        start, first_leaf = self._next, len(self.kept)
        element = self._take()
        path = (*path, _text(element, NAME))
        if len(path) > MAX_DEPTH:
            raise ValueError("the schema is too deep")
        if (TYPE in element) == (_integer(element, NUM_CHILDREN) > 0):
            raise ValueError("an element of the schema is both a leaf and a group, or neither")
        if TYPE in element:
            self.kept.append(self._wanted(path))
            return [element] if self.kept[-1] else []
        below = self._below(element, path)
        if below and _integer(element, REPETITION) == REPEATED:
            # Readers distinguish lists of structs, lists of values and maps by the number of children.
            self.kept[first_leaf:] = [True] * (len(self.kept) - first_leaf)
            return self._elements[start : self._next]
        return [_with_children(element, len(below)), *(kept for child in below for kept in child)] if below else []

    def _take(self) -> Struct:
        if self._next == len(self._elements):
            raise ValueError("the schema is truncated")
        self._next += 1
        return self._elements[self._next - 1]


def _with_children(element: Struct, count: int) -> Struct:
    return {**element, NUM_CHILDREN: (I32, _varint_of(count << 1))}


def _only(struct: Struct, numbers: Iterable[int]) -> Struct:
    return {number: struct[number] for number in numbers if number in struct}


def _kept(struct: Struct, number: int, kept: list[bool]) -> list[Value]:
    values = _list(struct, number)
    if len(values) != len(kept):
        raise ValueError("the number of columns differs from the schema")
    return [*compress(values, kept)]


def _list(struct: Struct, number: int) -> list[Value]:
    _, value = struct.get(number, (None, None))
    if not isinstance(value, list):
        raise ValueError(f"field {number} is not a list of structs")  # noqa: TRY004
    return value


def _structs(struct: Struct, number: int) -> list[Struct]:
    return [value for value in _list(struct, number) if isinstance(value, dict)]


def _integer(struct: Struct, number: int) -> int:
    """The value of an integer field; 0 if it is missing."""
    type_id, value = struct.get(number, (I32, b"\0"))
    if type_id not in INTEGERS or not isinstance(value, bytes):
        raise ValueError(f"field {number} is not an integer")
    return _signed(_varint(value, 0)[0])


def _text(struct: Struct, number: int) -> str:
    type_id, value = struct.get(number, (None, None))
    if type_id != BINARY or not isinstance(value, bytes):
        raise ValueError(f"field {number} is not text")
    return value[_varint(value, 0)[1] :].decode()


def _struct(data: bytes, at: int, lists: dict[int, Lists]) -> tuple[Struct, int]:
    """Decodes the struct that begins at an offset. Also returns the offset of its end."""
    struct: Struct = {}
    number = 0
    while head := data[at]:
        type_id = head & 15
        at += 1
        if head > 15:
            number += head >> 4
        else:
            unsigned, at = _varint(data, at)
            number = _signed(unsigned)
        start = at
        value: Value
        if number in lists:
            value, at = _decoded_list(data, at, type_id, lists[number])
        else:
            at = at if type_id in BOOLEANS else _end(data, at, type_id, MAX_DEPTH)
            value = data[start:at]
        if 0 < number <= MAX_FIELD:
            struct[number] = type_id, value
    return struct, at + 1


def _decoded_list(data: bytes, at: int, type_id: int, lists: Lists) -> tuple[list[Value], int]:
    count, item_type, at = _list_head(data, at)
    if type_id != LIST or item_type != STRUCT or count > MAX_STRUCTS:
        raise ValueError("the footer has a list that is too long or not of structs")
    values: list[Value] = []
    for _ in range(count):
        value: Value
        if lists is None:
            start, at = at, _end(data, at, STRUCT, MAX_DEPTH)
            value = data[start:at]
        else:
            value, at = _struct(data, at, lists)
        values.append(value)
    return values, at


def _end(data: bytes, at: int, type_id: int, depth: int) -> int:
    """The offset of the end of the value that begins at an offset."""
    if type_id in INTEGERS:
        return _varint(data, at)[1]
    if type_id == BINARY:
        size, at = _varint(data, at)
        return at + size
    if type_id == STRUCT and depth:
        while head := data[at]:
            at = at + 1 if head > 15 else _varint(data, at + 1)[1]
            if head & 15 not in BOOLEANS:
                at = _end(data, at, head & 15, depth - 1)
        return at + 1
    if type_id == LIST and depth:
        count, type_id, at = _list_head(data, at)
        for _ in range(count):
            at = _end(data, at, type_id, depth - 1)
        return at
    if type_id == BYTE or type_id in BOOLEANS:
        return at + 1
    if type_id == DOUBLE:
        return at + 8
    raise ValueError("the footer has an unknown type or is nested too deeply")


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    count, type_id, at = data[at] >> 4, data[at] & 15, at + 1
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data) - at:  # a value has at least one byte
        raise ValueError("the footer has a list that is longer than the footer")
    return count, type_id, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(MAX_VARINT_BYTES):
        byte = data[at + length]
        value |= (byte & 127) << 7 * length
        if byte < 128:
            return value, at + length + 1
    raise ValueError("the footer has a number that is too long")


def _signed(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _encoded(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        count = len(value)
        head = bytes([count << 4 | STRUCT]) if count < 15 else bytes([15 << 4 | STRUCT]) + _varint_of(count)
        return head + b"".join(map(_encoded, value))
    encoded, previous = bytearray(), 0
    for number, (type_id, inner) in sorted(value.items()):
        encoded.append(number - previous << 4 | type_id)
        encoded += _encoded(inner)
        previous = number
    return bytes(encoded) + b"\0"


def _varint_of(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
