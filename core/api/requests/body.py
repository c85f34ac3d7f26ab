"""Typed access to the fields of a JSON request body.

Unknown fields are ignored, null counts as absent, and whole numbers may be sent as strings. Error texts match the
reference server because clients and their tests compare them.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from core.api.requests.request import INT64_MAX, Request
from core.errors import MalformedRequestError

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Body:
    fields: dict[str, Any]
    message: str
    """The protocol's name of the request message, for error texts."""

    @classmethod
    def parse(cls, request: Request, message: str) -> "Body":
        if not request.body.strip():
            raise MalformedRequestError("No content to map due to end-of-input")
        try:
            fields = orjson.loads(request.body)
        except orjson.JSONDecodeError as error:
            raise MalformedRequestError(f"The request body is not valid JSON: {error.msg}") from None
        if not isinstance(fields, dict):
            raise MalformedRequestError(f"Expected a JSON object for {message}")
        return cls(fields, message)

    def text(self, name: str) -> str | None:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise MalformedRequestError(f"Expected a string for field {name} of {self.message}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.fields.get(name)
        if values is None:
            return ()
        if not isinstance(values, list):
            raise MalformedRequestError(f"Expected an array for repeated field {name} of {self.message}")
        if not all(isinstance(value, str) for value in values):
            raise MalformedRequestError(f"Expected strings in repeated field {name} of {self.message}")
        return tuple(values)

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        if value in ("true", "false"):
            return bool(value == "true")
        raise MalformedRequestError(f"Expected true or false for field {name} of {self.message}")

    def number(self, name: str, *, largest: int = INT64_MAX) -> int | None:
        value = self.fields.get(name)
        if value is None:
            return None
        number = _whole_number(value)
        if number is None:
            shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else str(value)[:100]
            raise MalformedRequestError(f"Not a numeric value: {shown}")
        if not -largest - 1 <= number <= largest:
            raise MalformedRequestError("Not an int32 value" if largest == INT32_MAX else "Not an int64 value")
        return number


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        # Python refuses to convert strings of more than 4,300 digits. Such numbers are out of range anyway.
        return int(value) if len(value) <= 4000 else INT64_MAX + 1
    return None
