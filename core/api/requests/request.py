"""A request as the routes see it, independent of the front end that received it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import InvalidParameterError

INT64_MAX = 2**63 - 1
MAX_DIGITS = len(str(INT64_MAX))
NOT_A_NUMBER = "expected a number but the string didn't have the appropriate format"


@dataclass(frozen=True, slots=True)
class Request:
    """Header names are lower case. Path parameters are percent-decoded."""

    method: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    request_id: str = ""

    @property
    def bearer_token(self) -> str | None:
        """The token of the Authorization header; None without the header or with a scheme other than Bearer."""
        scheme, _, token = self.headers.get("authorization", "").strip().partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None

    def number(self, name: str) -> int | None:
        """Returns a query parameter as a whole number, or None if it is absent. An empty parameter is an error."""
        text = self.query.get(name)
        return None if text is None else whole_number(text)


def whole_number(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # Check the length first: Python refuses to convert strings of more than 4,300 digits.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS) or int(digits) > INT64_MAX:
        raise InvalidParameterError(NOT_A_NUMBER)
    return int(text)
