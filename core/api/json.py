"""JSON as every client can read it: one line, and only ASCII.

The Python client splits an answer with `str.splitlines`, which also breaks at U+0085, U+2028 and others: escaping all
that is not ASCII keeps a line a line.
"""

import json
from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    try:
        encoded = orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits and lone surrogates: rare, and the standard library takes them
        return json.dumps(value, separators=(",", ":")).encode()
    return encoded if encoded.isascii() else json.dumps(value, separators=(",", ":")).encode()
