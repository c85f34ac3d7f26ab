"""S3 and DynamoDB fail after 10,000 lines of a streamed answer: the client sees the error, or misses nothing."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from core.runtime.streamed import StreamedAnswer
from tests.unit.delta.builder import PROTOCOL, add, metadata
from tests.unit.index.conftest import one_chunk_per_read, small_chunks
from tests.unit.index.indexed_table import IndexedTable, files
from tests.unit.runtime.streams import Seen, event, query_handle, read, stream
from tests.unit.runtime.test_function import log_lines
from tests.unit.sharing.shared_table import SharedTable

__all__ = ["log_lines", "one_chunk_per_read", "small_chunks"]

COMMITS, FILES_PER_COMMIT = 200, 100
FAULTS: dict[str, Exception] = {
    "error": ClientError(
        {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}, "GetObject"
    ),
    "denied": ClientError(
        {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}, "GetObject"
    ),
    "timeout": ReadTimeoutError(endpoint_url="https://secret-bucket.s3.amazonaws.com"),
}
Lines = list[dict[str, object]]


def many_commits() -> SharedTable:
    commits = [[add(f"{version}-{number}") for number in range(FILES_PER_COMMIT)] for version in range(COMMITS)]
    return SharedTable([PROTOCOL, metadata(), *commits[0]], *commits[1:])


def on_commit(table: SharedTable, version: int, fault: Callable[[], object]) -> None:
    def on_get(key: str) -> None:
        if key.endswith(f"{version:020}.json"):
            fault()

    table.lake.s3.on_get = on_get


def ask(table: SharedTable, *, checks_end: bool, milliseconds: int = 60_000, **body: object) -> StreamedAnswer:
    capabilities = {"delta-sharing-capabilities": "includeendstreamaction=true"} if checks_end else {}
    return stream(query_handle(table), event(body=body, **capabilities), milliseconds=milliseconds)


def check_failed(seen: Seen, log: Lines, *, checks_end: bool, ended: str) -> None:
    num_files = sum("add" in document or "file" in document for document in seen.documents)
    assert 10_000 < num_files < COMMITS * FILES_PER_COMMIT
    if checks_end:
        assert seen.complete
        assert seen.error["errorMessage"]
        message = seen.error["errorMessage"]
    else:
        assert not seen.complete
        message = str(seen.broken)
    assert "bucket" not in message
    assert "_delta_log" not in message
    (line,) = [line for line in log if line["message"] == "request"]
    assert (line["status"], line["ended"]) == (200, ended)
    assert line["error_code"]
    assert "secret-bucket" not in str(line)


@pytest.mark.parametrize("checks_end", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_of_s3(log_lines: Lines, fault: str, checks_end: bool) -> None:
    table = many_commits()

    def fail() -> None:
        raise FAULTS[fault]

    on_commit(table, COMMITS - 10, fail)
    check_failed(
        read(ask(table, checks_end=checks_end, startingVersion=0)), log_lines, checks_end=checks_end, ended="failed"
    )
    table.lake.s3.on_get = lambda _: None
    assert len(read(ask(table, checks_end=False, startingVersion=0)).documents) == 2 + COMMITS * FILES_PER_COMMIT


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("checks_end", [False, True])
def test_a_request_to_s3_that_hangs(log_lines: Lines, released: threading.Event, checks_end: bool) -> None:
    table = many_commits()
    on_commit(table, COMMITS - 10, lambda: released.wait(60))
    seen = read(ask(table, checks_end=checks_end, milliseconds=4000, startingVersion=0))
    check_failed(seen, log_lines, checks_end=checks_end, ended="deadline")


class Indexed(IndexedTable):
    """A table of 18,000 files that is read by its index."""

    def __init__(self) -> None:
        self.env = SharedTable()
        super().__init__(self.env.lake)
        self.begin(*files(0, 18_000))
        self.build()
        self.env.tables = replace(self.env.tables, delta=self.reader())
        self.faults = 0

    def fail_after(self, requests: int) -> None:
        """Makes DynamoDB fail after a number of reads of chunks."""
        done = 0

        def before(operation: str) -> None:
            nonlocal done
            done += operation == "BatchGetItem"
            if done > requests:
                self.faults += 1
                raise ClientError({"Error": {"Code": "InternalServerError"}}, operation)

        self.dynamodb.before = before


@pytest.mark.usefixtures("small_chunks", "one_chunk_per_read")
@pytest.mark.parametrize("log_fails", [False, True])
def test_an_error_of_dynamodb(log_lines: Lines, log_fails: bool) -> None:
    """The log has the remaining files. If it cannot be read either, the client sees the error."""
    table = Indexed()
    table.fail_after(260)
    if log_fails:

        def fail() -> None:
            raise FAULTS["error"]

        on_commit(table.env, 0, fail)
    seen = read(ask(table.env, checks_end=False))
    assert table.faults
    if log_fails:
        check_failed(seen, log_lines, checks_end=False, ended="failed")
        return
    found = [document["file"]["id"] for document in seen.documents if "file" in document]
    assert (seen.complete, len(found), len(set(found))) == (True, 18_000, 18_000)
    assert [line["ended"] for line in log_lines if line["message"] == "request"] == ["complete"]
