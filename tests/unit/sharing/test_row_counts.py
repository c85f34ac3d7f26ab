"""A limit on files without row counts: the server reads the footers of the first files, within bounds."""

import contextlib
import io
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from core.delta.log.footer import num_rows
from core.errors import UnsupportedOperationError
from core.sharing import row_counts
from core.sharing.row_counts import MAX_FOOTERS, PART_BYTES, FooterRowCounts, read_row_count
from tests.unit.delta.builder import PROTOCOL, Action, TableInMemory, add, metadata
from tests.unit.sharing.shared_table import DELTA, SharedTable
from tests.unit.sharing.test_answers import protocol


def name(number: int) -> str:
    return f"{number:03}"


def parquet_file(rows: int, columns: int = 1, **options: Any) -> bytes:
    buffer = io.BytesIO()
    table = pa.table({f"c{number}": pa.array(range(rows), pa.int64()) for number in range(columns)})
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def table_of(*rows: int | None, first: tuple[Action, ...] = (), **table: Any) -> SharedTable:
    """A table of files named 000, 001, …, without statistics. A file without a number of rows is not in storage."""
    files = {name(number): None if count is None else parquet_file(count) for number, count in enumerate(rows)}
    adds = [add(file, size=len(body or b"") or 500) for file, body in files.items()]
    env = SharedTable([PROTOCOL, metadata(), *first, *adds], **table)
    for file, body in files.items():
        if body is not None:
            env.lake.put(file, body)
    return env


def listed(lines: list[dict[str, Any]]) -> list[str]:
    files = [line["file"] for line in lines if "file" in line]
    urls = [file["url"] if "url" in file else file["deltaSingleAction"]["add"]["path"] for file in files]
    return [url.split("/one/")[1].split("?")[0] for url in urls]


def footers_read(env: SharedTable) -> list[str]:
    return sorted(key.removeprefix("tables/one/") for key in env.lake.s3.keys_read if "_delta_log" not in key)


def test_a_limit_on_files_without_row_counts_reads_the_footers_of_the_first_files() -> None:
    env = table_of(*[10] * 40)
    assert listed(env.query(limitHint=10)) == ["000"]
    assert footers_read(env) == ["000"]
    assert listed(env.query(limitHint=25)) == ["000", "001", "002"]
    assert listed(env.query(limitHint=100_000)) == [name(number) for number in range(40)]


def test_the_footers_of_a_request_are_bounded_and_the_rest_is_listed() -> None:
    env = table_of(*[1] * (MAX_FOOTERS + 300))
    assert len(listed(env.query(limitHint=MAX_FOOTERS))) == MAX_FOOTERS
    env.lake.s3.keys_read.clear()
    assert len(listed(env.query(limitHint=MAX_FOOTERS + 1))) == MAX_FOOTERS + 300
    assert len(footers_read(env)) == MAX_FOOTERS


def test_no_footer_is_read_without_a_limit_or_with_row_counts() -> None:
    env = table_of(10, 10, 10)
    assert len(listed(env.query())) == 3
    assert listed(env.query(limitHint=0)) == []
    counted = SharedTable([PROTOCOL, metadata(), *(add(name, stats='{"numRecords":5}') for name in "abc")])
    assert listed(counted.query(limitHint=6)) == ["a", "b"]
    assert footers_read(env) == footers_read(counted) == []


def test_files_after_the_one_that_reaches_the_limit_are_not_read() -> None:
    env = table_of(3, 10, first=(add("-counted", stats='{"numRecords":5}'),))
    assert listed(env.query(limitHint=5)) == ["-counted"]
    assert footers_read(env) == []
    assert listed(env.query(limitHint=8)) == ["-counted", "000"]
    assert footers_read(env) == ["000"]


def test_rows_that_a_deletion_vector_removes_do_not_count() -> None:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 9}
    body = parquet_file(10)
    files = [add("a", size=len(body), deletionVector=vector), add("b", size=len(body)), add("c", size=len(body))]
    env = SharedTable([protocol("deletionVectors"), metadata(), *files])
    for name in "abc":
        env.lake.put(name, body)
    assert listed(env.query(DELTA, limitHint=1)) == ["a"]
    assert listed(env.query(DELTA, limitHint=2)) == ["a", "b"]
    assert listed(env.query(DELTA, limitHint=11)) == ["a", "b"]
    assert listed(env.query(DELTA, limitHint=12)) == ["a", "b", "c"]


def test_with_a_predicate_only_footers_of_files_whose_rows_all_match_are_read() -> None:
    body = parquet_file(10)
    env = SharedTable(
        [PROTOCOL, metadata(), *(add(f"{p}{n}", size=len(body), partitionValues={"p": p}) for n in "123" for p in "xy")]
    )
    for name in ("x1", "x2", "x3", "y1", "y2", "y3"):
        env.lake.put(name, body)
    assert listed(env.query(predicateHints=["p = 'x'"], limitHint=15)) == ["x1", "x2"]
    assert set(footers_read(env)) <= {"x1", "x2", "x3"}
    env.lake.s3.keys_read.clear()
    assert listed(env.query(predicateHints=["p = 'x' AND c > 5"], limitHint=15)) == ["x1", "x2", "x3"]
    assert footers_read(env) == []


def test_a_file_that_cannot_be_read_does_not_count() -> None:
    env = table_of(None, 10, 10)
    assert listed(env.query(limitHint=10)) == ["000", "001"]


@pytest.mark.parametrize(
    "problem",
    [
        ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject"),
        ClientError({"Error": {"Code": "SlowDown"}}, "GetObject"),
        ReadTimeoutError(endpoint_url="http://127.0.0.1"),
    ],
)
def test_a_failing_storage_does_not_fail_the_query(problem: Exception) -> None:
    env = table_of(10, 10, 10)

    def fail(key: str) -> None:
        if "_delta_log" not in key:
            raise problem

    env.lake.s3.on_get = fail
    assert listed(env.query(limitHint=5)) == ["000", "001", "002"]


def test_the_answer_does_not_wait_for_slow_footers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_counts, "MAX_SECONDS", 0.01)
    env = table_of(*[10] * 5)
    answered = threading.Event()
    env.lake.s3.on_get = lambda key: "_delta_log" in key or answered.wait(30)
    try:
        assert len(listed(env.query(limitHint=5))) == 5
    finally:
        answered.set()


def test_no_more_footers_are_read_after_the_time_is_over() -> None:
    env = table_of(*[1] * 50)
    seconds = iter([0.0, 0.0, *[9.0] * 50])
    footers = FooterRowCounts(env.table, env.lake.storage(), now=lambda: next(seconds))
    assert footers.max_reads == 1
    assert footers.read(["000"], [500]) in ([1], [None])
    assert footers.max_reads == 0


def test_files_outside_the_locations_of_the_table_are_never_read() -> None:
    env = SharedTable([PROTOCOL, metadata(), add("s3://elsewhere/secret", size=500)])
    with pytest.raises(UnsupportedOperationError, match="absolute paths"):
        env.query(limitHint=5)
    assert footers_read(env) == []


def test_pages_end_at_the_limit_and_continue_the_count() -> None:
    env = table_of(*[10] * 30)
    pages = env.pages(env.query, maxFiles=2, limitHint=45)
    names = [line.split(b"/one/")[1].split(b"?")[0] for page in pages for line in page if b"/one/" in line]
    assert names == [b"000", b"001", b"002", b"003", b"004"]


@given(
    rows=st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=1, max_size=12),
    counted=st.lists(st.booleans(), min_size=12, max_size=12),
    limit=st.integers(0, 60),
)
def test_the_listed_files_have_enough_rows_or_are_all_files(
    rows: list[int | None], counted: list[bool], limit: int
) -> None:
    """With a limit, no row is missing that the client could need, and no file follows the one that has enough."""
    env = SharedTable([PROTOCOL, metadata()])
    adds = []
    for number, (count, has_stats) in enumerate(zip(rows, counted, strict=False)):
        body = BODIES[count] if count is not None else b"not a Parquet file"
        env.lake.put(name(number), body)
        stats = {"stats": f'{{"numRecords":{count}}}'} if has_stats and count is not None else {}
        adds.append(add(name(number), size=len(body), **stats))
    env.lake.commit(1, *adds)
    found = listed(env.query(limitHint=limit))
    assert found == [name(number) for number in range(len(found))]
    enough = sum(rows[int(file)] or 0 for file in found) >= limit
    assert enough or len(found) == len(rows)
    assert not found or sum(rows[int(file)] or 0 for file in found[:-1]) < limit


BODIES = {count: parquet_file(count) for count in range(21)}


class TestFooters:
    @pytest.fixture
    def lake(self) -> TableInMemory:
        return TableInMemory()

    @pytest.fixture
    def count(self, lake: TableInMemory) -> Callable[..., int | None]:
        def count(body: bytes, size: int | None = None) -> int | None:
            lake.put("file", body)
            return read_row_count(lake.objects(), lake.location.key("file"), len(body) if size is None else size)

        return count

    @pytest.mark.parametrize("rows", [0, 1, 63, 64, 100_000])
    def test_the_number_of_rows_is_read(self, count: Any, rows: int) -> None:
        assert count(parquet_file(rows)) == rows
        assert count(parquet_file(rows, columns=30, row_group_size=1000)) == rows

    def test_a_large_footer_needs_two_requests(self, count: Any, lake: TableInMemory) -> None:
        body = parquet_file(2000, columns=40, row_group_size=20)
        assert int.from_bytes(body[-8:-4], "little") > PART_BYTES
        assert count(body) == 2000
        assert lake.requests == ["GetObject", "GetObject"]

    def test_a_footer_whose_schema_is_too_large_is_unknown(self, count: Any) -> None:
        assert count(parquet_file(1, columns=6000)) is None

    @pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" * 3, b"\0" * 100, b"x" * 100 + b"\xff\xff\xff\xffPAR1"])
    def test_another_file_is_unknown(self, count: Any, body: bytes) -> None:
        assert count(body) is None

    def test_an_encrypted_footer_is_unknown(self, count: Any) -> None:
        assert count(parquet_file(5)[:-4] + b"PARE") is None

    def test_a_file_of_another_size_than_in_the_log_is_unknown(self, count: Any) -> None:
        body = parquet_file(5)
        assert count(body, len(body) - 1) is None
        assert count(body, len(body) + 1) is None
        assert count(body, 10 * len(body)) is None

    def test_a_negative_number_is_unknown(self, count: Any) -> None:
        footer = b"\x15\x02\x19\x0c\x16\x01\x00"  # version 1, an empty schema, -1 rows
        assert num_rows(footer) == -1
        assert count(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1") is None

    def test_a_list_that_claims_more_values_than_bytes_is_rejected_at_once(self) -> None:
        with pytest.raises(ValueError, match="longer than the footer"):
            num_rows(b"\x29\xf3" + b"\xff" * 8 + b"\x7f")  # a list of 2**63 - 1 bytes

    @given(st.binary(max_size=300))
    def test_any_bytes_give_a_number_or_a_value_error(self, footer: bytes) -> None:
        with contextlib.suppress(ValueError):
            assert isinstance(num_rows(footer), int)
