"""JSON as every client can read it: one line, and only ASCII.

The Python client splits an answer with `str.splitlines`, which also breaks at U+0085, U+2028 and others: escaping all
that is not ASCII keeps a line a line.
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
    except TypeError:  # integers beyond 64 bits and lone surrogates: rare, and the standard library takes them
        pass
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
