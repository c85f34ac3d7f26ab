"""Streamed answers over HTTP: never a part that looks like the whole, early first lines, and no limit of 6 MB.

Faults are real: S3 answers reads of the log with errors or not at all, or a checkpoint is damaged, after the first ten
thousand lines were sent.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import delta_sharing
import pytest
import requests
from delta_sharing.protocol import CdfOptions, DeltaSharingProfile, Table
from delta_sharing.rest_client import DataSharingRestClient

from bench import tables
from cli.embedded.ministack import EmbeddedAws
from cli.embedded.mirror import Mirror
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up
from core.runtime.events import MAX_ANSWER_BYTES
from tests.fault_proxy import PathProxy, path_proxy
from tests.streaming import (
    SCHEMA,
    SHARE,
    Endpoint,
    damage_statistics,
    read_raw,
    serving_functions,
    share,
    version_in,
    write_versions,
)

VERSIONS, FILES_EACH, FIRST_FAULT = 200, 100, 150
MANY = 100_000
DAMAGED = 60_000
CHECKPOINT = f"_delta_log/{tables.CHECKPOINT_VERSION:020}.checkpoint.parquet"
CHANGES = "changes?startingVersion=0"
END_ACTION = {"delta-sharing-capabilities": "includeendstreamaction=true"}


@dataclass(frozen=True)
class Tables:
    environment: dict[str, str]
    token: str
    folder: Path
    whole_before_damage: int


@pytest.fixture(scope="module")
def shared(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    environment = set_up(aws)
    folder = tmp_path_factory.mktemp("streaming")
    write_versions(folder / "versions", VERSIONS, FILES_EACH)
    tables.write_table(folder / "many", MANY)
    tables.write_table(folder / "damaged", DAMAGED)
    whole = damage_statistics(folder / "damaged" / CHECKPOINT)
    mirror = Mirror(s3_client(aws), DATA_BUCKET)
    token = share(catalog_admin(aws), {name: mirror.add(folder / name) for name in ("versions", "many", "damaged")})
    return Tables(environment, token, folder, whole)


@pytest.fixture(scope="module")
def proxy(aws: EmbeddedAws) -> Iterator[PathProxy]:
    with path_proxy(aws.port) as running:
        yield running


@pytest.fixture(scope="module")
def endpoint(shared: Tables, proxy: PathProxy) -> Iterator[Endpoint]:
    with serving_functions(
        {**shared.environment, "AWS_ENDPOINT_URL": proxy.url}, shared.token, shared.folder
    ) as running:
        yield running


@pytest.fixture
def s3_fails(proxy: PathProxy) -> Iterator[None]:
    """S3 cannot read commits after the first ten thousand files."""
    proxy.fails = lambda path: version_in(path) >= FIRST_FAULT
    yield
    proxy.fails = lambda _: False


@pytest.fixture
def s3_waits(proxy: PathProxy) -> Iterator[None]:
    """S3 does not answer reads of commits after the first ten thousand files until the end of the test."""
    proxy.release.clear()
    proxy.waits = lambda path: version_in(path) >= FIRST_FAULT
    yield
    proxy.release.set()
    proxy.waits = lambda _: False


def rest_client(endpoint: Endpoint) -> DataSharingRestClient:
    return DataSharingRestClient(DeltaSharingProfile.read_from_file(str(endpoint.profile)))


@pytest.mark.usefixtures("s3_fails")
def test_the_published_client_reports_changes_that_break_off(endpoint: Endpoint) -> None:
    with contextlib.closing(rest_client(endpoint)) as client, pytest.raises(requests.exceptions.ChunkedEncodingError):
        client.list_table_changes(Table("versions", SHARE, SCHEMA), CdfOptions(starting_version=0))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        delta_sharing.load_table_changes_as_pandas(endpoint.table_url("versions"), starting_version=0)


def test_the_published_client_reports_a_query_that_breaks_off(endpoint: Endpoint) -> None:
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        delta_sharing.load_as_pandas(endpoint.table_url("damaged"))
    with contextlib.closing(rest_client(endpoint)) as client, pytest.raises(requests.exceptions.ChunkedEncodingError):
        client.list_files_in_table(Table("damaged", SHARE, SCHEMA))


@pytest.mark.usefixtures("s3_fails")
def test_changes_that_break_off_have_no_last_chunk(endpoint: Endpoint) -> None:
    answer = read_raw(endpoint.send(endpoint.request("GET", "versions", CHANGES)))
    assert answer.head.startswith("HTTP/1.1 200 ")
    assert not answer.has_last_chunk
    assert 10_000 < len(answer.lines) < VERSIONS * FILES_EACH
    assert "endStreamAction" not in answer.lines[-1]


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_query_that_breaks_off_has_no_last_chunk(endpoint: Endpoint, shared: Tables, encoding: str) -> None:
    request = endpoint.request("POST", "damaged", "query", "{}", **{"Accept-Encoding": encoding})
    answer = read_raw(endpoint.send(request))
    assert answer.head.startswith("HTTP/1.1 200 ")
    assert not answer.has_last_chunk
    if encoding == "identity":
        assert 10_000 < len(answer.lines) <= shared.whole_before_damage


@pytest.mark.usefixtures("s3_fails")
def test_a_client_that_checks_the_end_finds_the_error_of_changes_there(endpoint: Endpoint) -> None:
    answer = read_raw(endpoint.send(endpoint.request("GET", "versions", CHANGES, **END_ACTION)))
    assert answer.has_last_chunk
    assert 10_000 < len(answer.lines) < VERSIONS * FILES_EACH
    assert _is_failure(answer.lines[-1])


def test_a_client_that_checks_the_end_finds_the_error_of_a_query_there(endpoint: Endpoint) -> None:
    answer = read_raw(endpoint.send(endpoint.request("POST", "damaged", "query", "{}", **END_ACTION)))
    assert answer.has_last_chunk
    assert _is_failure(answer.lines[-1])
    assert not any("endStreamAction" in line for line in answer.lines[:-1])


def _is_failure(line: str) -> bool:
    action = json.loads(line)["endStreamAction"]
    assert action["errorMessage"]
    assert "s3://" not in line
    assert DATA_BUCKET not in line
    return "nextPageToken" not in action


@pytest.mark.usefixtures("s3_waits")
def test_an_answer_that_is_late_breaks_off_or_ends_with_the_error(shared: Tables, proxy: PathProxy) -> None:
    environment = {**shared.environment, "AWS_ENDPOINT_URL": proxy.url}
    with serving_functions(environment, shared.token, shared.folder, timeout_seconds=6) as endpoint:
        broken = endpoint.send(endpoint.request("GET", "versions", CHANGES))
        failed = endpoint.send(endpoint.request("GET", "versions", CHANGES, **END_ACTION))
        answer = read_raw(broken)
        assert not answer.has_last_chunk
        assert len(answer.lines) > 10_000
        answer = read_raw(failed)
        assert answer.has_last_chunk
        assert "in time" in json.loads(answer.lines[-1])["endStreamAction"]["errorMessage"]


@pytest.mark.usefixtures("s3_waits")
def test_the_first_line_arrives_before_the_last_commit_is_read(endpoint: Endpoint, proxy: PathProxy) -> None:
    with endpoint.send(endpoint.request("GET", "versions", CHANGES)) as raw:
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert "protocol" in json.loads(response.readline())
        proxy.release.set()
        assert len(response.read().splitlines()) == 1 + VERSIONS * FILES_EACH


def test_the_published_client_lists_100_000_files_and_they_equal_the_log(endpoint: Endpoint) -> None:
    with contextlib.closing(rest_client(endpoint)) as client:
        listed = client.list_files_in_table(Table("many", SHARE, SCHEMA)).add_files
    expected = {one.path: one for one in map(tables.file, range(100, MANY + 100))}
    assert len(listed) == len(expected)
    for file in listed:
        in_log = expected.pop(unquote(urlsplit(file.url).path).split("/", 3)[3])
        assert (file.size, file.stats) == (in_log.size, in_log.stats)
        assert file.partition_values == {"pickup_date": in_log.day}


def test_an_answer_of_many_times_6_mb_without_gzip_is_complete(endpoint: Endpoint) -> None:
    answer = read_raw(endpoint.send(endpoint.request("POST", "many", "query", "{}")))
    assert answer.has_last_chunk
    assert len(answer.body) > 10 * MAX_ANSWER_BYTES
    assert len(answer.lines) == 2 + MANY
    assert "content-encoding" not in answer.head.lower()
