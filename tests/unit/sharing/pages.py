"""A table of five files, and helpers to request its pages and tokens."""

from typing import Any

import pytest

from core.errors import SharingError
from tests.unit.delta.builder import PROTOCOL, add, metadata
from tests.unit.sharing.shared_table import SharedTable

FEED = {"delta.enableChangeDataFeed": "true"}
MISMATCH = (
    "Query parameter mismatch detected for the next page query. The query parameter\n"
    "cannot change when querying the next page results."
)


def rows(number: int) -> dict[str, str]:
    return {"stats": f'{{"numRecords":{number}}}'}


def five_files(**table: Any) -> SharedTable:
    return SharedTable(
        [PROTOCOL, metadata(configuration=FEED), *(add(letter, **rows(10)) for letter in "abcde")], **table
    )


def letters(lines: list[bytes]) -> str:
    """Returns the names of the files on a page, each one letter, from their URLs."""
    urls = (line.split(b"/one/")[1] for line in lines if b"/one/" in line)
    return "".join(url[:1].decode() for url in urls)


def refusal(ask: Any, *arguments: Any, **body: Any) -> str:
    with pytest.raises(SharingError) as caught:
        ask(*arguments, **body)
    assert caught.value.status == 400
    return caught.value.message


def first_token(env: SharedTable, **body: Any) -> str:
    return env.query(maxFiles=2, **body)[-1]["endStreamAction"]["nextPageToken"]


def refresh_token(env: SharedTable, **body: Any) -> str:
    return env.query(includeRefreshToken=True, **body)[-1]["endStreamAction"]["refreshToken"]
