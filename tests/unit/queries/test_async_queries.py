"""Asynchronous queries from submission to answer, with a clock that tests move and workers that they kill."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from core.errors import ChangedLogError, InvalidParameterError, LongLogError, NotFoundError, QueryFailedError
from core.index.layout.items import table_of
from core.index.write.version_build import index_of_version
from core.queries import store as store_module
from core.queries.query import CHAIN_SECONDS, JOB_SECONDS, LEASE_SECONDS, MAX_ATTEMPTS, RESEND_SECONDS, key_of
from core.queries.queue import query_key_of
from core.storage.objects import TableObjects
from tests.unit.delta.builder import PROTOCOL, metadata, remove
from tests.unit.index.indexed_table import files, schema_of
from tests.unit.queries.async_table import PARQUET, AsyncTable, fake_dynamodb

FIRST = [PROTOCOL, metadata(schemaString=schema_of(id="long", s="string", p="string")), *files(0, 60)]
DELTA = "responseformat=delta;asyncquery=true"
WITH_END = ";includeendstreamaction=true"


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with fake_dynamodb() as client:
        yield client


@pytest.fixture
def table(dynamodb: Any) -> Iterator[AsyncTable]:
    made = AsyncTable(dynamodb, FIRST)
    yield made
    for item in dynamodb.scan(TableName="index")["Items"]:
        dynamodb.delete_item(TableName="index", Key={name: item[name] for name in ("pk", "sk")})


def by_id(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The files of an answer by id. Their order is that of an index or of the log."""
    found = [line["file"] for line in lines if "file" in line]
    assert len({file["id"] for file in found}) == len(found)
    return {file["id"]: file for file in found}


def test_a_query_is_pending_until_a_worker_has_prepared_it(table: AsyncTable) -> None:
    query_id = table.submitted(predicateHints=[])
    assert table.headers["Delta-Table-Version"] == "0"
    assert table.headers["delta-sharing-capabilities"] == "responseformat=parquet;asyncquery=true"
    assert table.poll(query_id) == [{"queryStatus": {"queryId": query_id, "status": "pending"}}]
    assert table.headers["Delta-Table-Version"] == "0"
    table.work()
    answer, raw = table.poll(query_id), table.raw
    assert table.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    expected = table.synchronous()
    assert raw[:2] == table.raw[:2]
    assert by_id(answer) == by_id(expected)
    assert len(answer) == len(expected)


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA, DELTA + WITH_END])
@pytest.mark.parametrize("body", [{"maxFiles": 7}, {"maxFiles": 7, "includeRefreshToken": True}])
def test_the_pages_of_a_query_have_all_its_files_and_the_same_first_lines(
    table: AsyncTable, capabilities: str, body: dict[str, Any]
) -> None:
    hint = {"predicateHints": ["id >= 10"]}
    query_id = table.submitted(capabilities, **hint, **body)
    assert len(table.raw) == 1  # also if end-of-stream actions are on
    table.work()
    heads, ids, token = set(), [], {}
    while True:
        table.restart()
        lines = table.poll(query_id, capabilities, maxFiles=7, **token)
        end = lines[-1]["endStreamAction"]
        assert ("refreshToken" in end) == ("includeRefreshToken" in body and not token)
        heads.add((*table.raw[:2], table.headers["Delta-Table-Version"], table.headers["delta-sharing-capabilities"]))
        page = [next(iter(line.values())) for line in lines[2:-1]]
        assert 0 < len(page) <= 7
        ids += [file["id"] for file in page]
        if "nextPageToken" not in end:
            break
        table.now += 3600  # pages can be read for a day
        token = {"pageToken": end["nextPageToken"]}
    assert len(heads) == 1
    at_once = table.synchronous(capabilities.partition(";")[0], **hint)
    assert sorted(ids) == sorted(next(iter(line.values()))["id"] for line in at_once[2:])


def test_a_submission_that_is_sent_again_gets_the_same_id_and_another_query_another_one(table: AsyncTable) -> None:
    query_id = table.submitted(limitHint=5)
    assert table.submitted(limitHint=5) == query_id
    table.lake.commit(1, *files(60, 61))
    assert table.submitted(limitHint=5) == query_id
    others = {
        table.submitted(limitHint=6),
        table.submitted(limitHint=5, key="other"),
        table.submitted(limitHint=5, includeRefreshToken=True),
        table.submitted(limitHint=5, version=0),
    }
    table.recipient = "r-2"
    others.add(table.submitted(limitHint=5))
    assert len({query_id, *others}) == 6


def test_submissions_at_the_same_time_get_the_same_id(table: AsyncTable) -> None:
    query = AsyncTable(table.dynamodb, FIRST)
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: query.submitted(key="same"), range(16)))
    assert len(ids) == 1
    query.work()
    assert not query.is_pending(ids.pop())


def test_an_id_that_is_unknown_foreign_expired_or_changed_is_not_found(table: AsyncTable) -> None:
    query_id = table.submitted()
    table.work()
    texts = set()
    swapped = query_id[:-1] + ("0" if query_id[-1] != "0" else "1")
    for other in ("", "x", "é" * 64, "\udcff" * 64, query_id[:-1], query_id + "0", swapped, "0" * 64, query_id.upper()):
        with pytest.raises(NotFoundError) as refused:
            table.poll(other)
        texts.add(refused.value.message)
    table.recipient = "r-2"
    with pytest.raises(NotFoundError) as refused:
        table.poll(query_id)
    texts.add(refused.value.message)
    table.recipient = "r-1"
    table.table, own = table.table.__class__(**{**_fields(table.table), "id": "t-2"}), table.table
    with pytest.raises(NotFoundError) as refused:
        table.poll(query_id)
    texts.add(refused.value.message)
    table.table = own
    assert not table.is_pending(query_id)
    table.now += CHAIN_SECONDS
    with pytest.raises(NotFoundError) as refused:
        table.poll(query_id)
    texts.add(refused.value.message)
    assert len(texts) == 1
    assert table.submitted() != query_id  # although DynamoDB still has the expired item


def _fields(table: Any) -> dict[str, Any]:
    return {name: getattr(table, name) for name in table.__slots__}


def test_a_client_that_cannot_wait_gets_an_error_with_advice(table: AsyncTable) -> None:
    with pytest.raises(LongLogError, match="asyncquery=true.*`sluice index`") as refused:
        table.submit("responseformat=parquet")
    assert refused.value.status == 400
    assert not table.queue.keys


def test_only_a_log_over_the_limit_is_too_long(table: AsyncTable) -> None:
    size = len(table.lake.s3.objects[table.lake.location.key("_delta_log/00000000000000000000.json")][0])
    table.restart(max_log_bytes=size)
    assert "protocol" in table.submit()[0]
    table.restart(max_log_bytes=size - 1)
    assert "queryStatus" in table.submit()[0]
    table.work()
    table.restart(max_log_bytes=size - 1)
    assert "protocol" in table.submit(key="next")[0]  # the index of the first query is live


def test_a_table_in_memory_is_answered_at_once(table: AsyncTable) -> None:
    table.restart(max_log_bytes=None)
    table.submit()
    table.queries = type(table.queries)(1, table.store, table.queue)  # type: ignore[arg-type]
    assert "protocol" in table.submit()[0]


def test_a_query_of_an_old_version_gets_a_build_that_is_not_live(table: AsyncTable) -> None:
    table.lake.commit(1, remove("00000.parquet"), *files(60, 70))
    query_id = table.submitted(version=0)
    table.work()
    assert table.indexes.live(table_of(table.lake.location.uri)) is None
    answer = table.poll(query_id)
    assert table.headers["Delta-Table-Version"] == "0"
    assert by_id(answer) == by_id(table.synchronous(version=0))
    assert len(by_id(answer)) == 60


def test_an_index_that_became_live_in_the_meantime_is_used(table: AsyncTable) -> None:
    query_id = table.submitted()
    opened = TableObjects(table.lake.objects(), table.lake.location)
    stored = table.stored(query_id)
    made = index_of_version(table.indexes, opened, stored.version, stored.tip, max_log_bytes=1e9)
    table.work()
    assert table.stored(query_id).checkpoint_id == made


def test_a_refresh_gets_the_same_files_with_new_urls(table: AsyncTable) -> None:
    query_id = table.submitted(includeRefreshToken=True)
    table.work()
    first = table.poll(query_id)
    token = first[-1]["endStreamAction"]["refreshToken"]
    table.lake.commit(1, remove("00000.parquet"))
    table.restart()
    again = table.submit(refreshToken=token, includeRefreshToken=True, key="refresh")
    assert by_id(again).keys() == by_id(first).keys()
    assert table.headers["Delta-Table-Version"] == "0"


def test_page_tokens_of_a_query_are_not_valid_for_another_one(table: AsyncTable) -> None:
    one, other = table.submitted(key="one"), table.submitted(key="other")
    table.work()
    token = table.poll(one, maxFiles=3)[-1]["endStreamAction"]["nextPageToken"]
    assert len(table.poll(one, maxFiles=3, pageToken=token)) == 6
    with pytest.raises(InvalidParameterError, match="mismatch"):
        table.poll(other, maxFiles=3, pageToken=token)
    with pytest.raises(InvalidParameterError, match="decoding"):
        table.submit(pageToken=token, maxFiles=3)


def test_the_rules_of_the_table_hold_for_polls_too(table: AsyncTable) -> None:
    table.lake.commit(1, *files(60, 61))
    query_id = table.submitted(version=0)
    table.work()
    for change, message in (
        ({"history_shared": False}, "history sharing is not enabled"),
        ({"start_version": 1}, "since version 1"),
    ):
        table.table = table.table.__class__(**{**_fields(AsyncTable(table.dynamodb).table), **change})
        with pytest.raises(InvalidParameterError, match=message):
            table.poll(query_id)
    table.table = table.table.__class__(**{**_fields(AsyncTable(table.dynamodb).table), "location": "s3://b/other"})
    with pytest.raises(NotFoundError):
        table.poll(query_id)


def test_a_query_whose_index_is_gone_must_be_run_again(table: AsyncTable) -> None:
    query_id = table.submitted()
    table.work()
    for item in table.dynamodb.scan(TableName="index")["Items"]:
        if "#ROOT" in item["pk"]["S"]:
            table.dynamodb.delete_item(TableName="index", Key={name: item[name] for name in ("pk", "sk")})
    table.restart()
    with pytest.raises(ChangedLogError, match="restart the query"):
        table.poll(query_id)


class TestWorkersThatFail:
    def test_a_poll_asks_for_a_new_worker_if_the_message_was_lost(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.queue.keys.clear()
        assert table.is_pending(query_id)
        assert not table.queue.keys
        table.now += RESEND_SECONDS
        assert table.is_pending(query_id)
        assert table.is_pending(query_id)
        assert len(table.queue.keys) == 1  # not with every poll
        table.work()
        assert not table.is_pending(query_id)

    def test_a_worker_that_is_killed_is_replaced_when_its_lease_ends(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        assert table.store.lease(table.stored(query_id))
        table.now += RESEND_SECONDS - 1
        table.work()  # finds that another worker has the query
        assert table.is_pending(query_id)
        table.now += LEASE_SECONDS
        assert table.is_pending(query_id)
        table.work()
        assert not table.is_pending(query_id)
        assert table.stored(query_id).attempts == 2

    def test_a_query_fails_with_a_message_if_every_worker_is_killed(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        for attempt in range(MAX_ATTEMPTS):
            assert table.is_pending(query_id), attempt
            assert table.store.lease(table.stored(query_id))
            table.now += LEASE_SECONDS
        with pytest.raises(QueryFailedError, match="could not prepare the query in 3 attempts"):
            table.poll(query_id)
        table.queue.ask_worker(query_id[:32])
        table.work()
        with pytest.raises(QueryFailedError):
            table.poll(query_id)

    def test_a_query_fails_with_a_message_if_every_worker_fails(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.dynamodb.meta.events.register("before-call.dynamodb.BatchWriteItem", _fail)
        try:
            for _ in range(MAX_ATTEMPTS):
                assert table.is_pending(query_id)
                with pytest.raises(ClientError):
                    table.work()
        finally:
            table.dynamodb.meta.events.unregister("before-call.dynamodb.BatchWriteItem", _fail)
        with pytest.raises(QueryFailedError, match="Please run the query again"):
            table.poll(query_id)

    def test_a_worker_that_lost_its_lease_changes_nothing(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        late = table.store.lease(table.stored(query_id))
        assert late is not None
        table.now += LEASE_SECONDS
        assert table.store.lease(table.stored(query_id))
        assert not table.store.renew(late)
        assert not table.store.fail(late, "too late")
        assert not table.store.wait_for_job(late)
        assert table.is_pending(query_id)

    def test_two_workers_at_once_make_one_build(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: table.worker().prepare(query_id[:32]), range(4)))
        assert table.stored(query_id).attempts == 1
        markers = [item for item in table.dynamodb.scan(TableName="index")["Items"] if item["sk"]["S"].startswith("B")]
        assert len(markers) == 1

    def test_a_table_that_cannot_be_read_is_an_error_that_names_no_path(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.lake.put("_delta_log/00000000000000000000.json", b'{"protocol":{"minReaderVersion":99}}\n{"add":{}}\n')
        table.work()
        with pytest.raises(QueryFailedError) as refused:
            table.poll(query_id)
        assert "s3" not in refused.value.message

    def test_messages_that_name_no_query_are_ignored(self, table: AsyncTable) -> None:
        table.worker().prepare("unknown")
        assert [query_key_of(body) for body in ("", "[]", "{}", '{"query": 1}', '"x"')] == [None] * 5
        assert query_key_of('{"query": "k"}') == "k"


def _fail(**_: Any) -> Any:
    raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchWriteItem")


class TestTablesThatAreTooLargeForAWorker:
    def ask(self, table: AsyncTable) -> dict[str, Any]:
        return {"max_log_bytes": 10, "ask_index_job": table.jobs.append}

    def test_the_index_job_is_started_and_the_query_answers_from_its_index(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.work(**self.ask(table))
        assert table.jobs == ["sales.public.trips"]
        assert table.is_pending(query_id)
        table.now += RESEND_SECONDS
        assert table.is_pending(query_id)
        assert not table.queue.keys  # the worker has nothing left to do
        table.lake.commit(1, *files(60, 65))
        opened = TableObjects(table.lake.objects(), table.lake.location)
        tip = table.tables.delta.tip(table.lake.storage(), 1)
        index_of_version(table.indexes, opened, 1, tip, max_log_bytes=1e9)  # as the job does
        table.lake.commit(2, remove("00001.parquet"))
        table.restart()
        answer = table.poll(query_id, maxFiles=50)
        assert table.headers["Delta-Table-Version"] == "2"
        table.lake.commit(3, remove("00002.parquet"))
        table.restart()
        rest = table.poll(query_id, maxFiles=50, pageToken=answer[-1]["endStreamAction"]["nextPageToken"])
        assert table.headers["Delta-Table-Version"] == "2"
        assert len(by_id(answer) | by_id(rest)) == 64

    def test_a_query_fails_if_the_job_does_not_finish(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.work(**self.ask(table))
        table.now += JOB_SECONDS
        with pytest.raises(QueryFailedError, match="index job"):
            table.poll(query_id)

    def test_a_query_of_a_given_version_fails_because_the_job_indexes_the_latest(self, table: AsyncTable) -> None:
        table.lake.commit(1, *files(60, 61))
        query_id = table.submitted(version=0)
        table.work(**self.ask(table))
        assert not table.jobs
        with pytest.raises(QueryFailedError, match="version 0 .*query the latest version"):
            table.poll(query_id)

    def test_without_a_job_the_query_fails_and_says_what_the_provider_can_do(self, table: AsyncTable) -> None:
        query_id = table.submitted()
        table.work(max_log_bytes=10)
        with pytest.raises(QueryFailedError, match="`sluice index`"):
            table.poll(query_id)


def test_hints_that_do_not_fit_an_item_are_refused(table: AsyncTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_REQUEST_CHARACTERS", 200)
    with pytest.raises(Exception, match="too long for an asynchronous query"):
        table.submit(predicateHints=["id = 1" * 50])
    hints = json.dumps({"op": "é\ud83d"})
    assert table.submitted(jsonPredicateHints=hints)
    assert key_of("short") is None
