"""JSON that every client can read: one line, ASCII only.

The Python client splits an answer with `str.splitlines`, which also breaks lines at U+0085, U+2028 and others. Escaping
every character beyond ASCII keeps each object on one line.
"""

import json
from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    return dump_line(value)[:-1]


def dump_line(value: Any) -> bytes:
    try:
        line = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
        if line.isascii():
            return line
    except TypeError:  # only the standard library writes integers beyond 64 bits and lone surrogates
        pass
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
