"""The published client lists large tables through the loop that streams in Lambda, and they equal the log."""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import requests
from delta_sharing.protocol import AddFile, DeltaSharingProfile, Table
from delta_sharing.rest_client import DataSharingRestClient

from bench import tables
from cli.embedded.ministack import EmbeddedAws
from cli.embedded.mirror import Mirror
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up
from tests.streaming import SCHEMA, SHARE, LambdaAdapter, running_loop, share

ENDPOINT = "http://lambda.test/delta-sharing"
QUERY_TABLE = "handlers.query_table.lambda_handler"
FIRST = tables.COMMITS * tables.FILES_PER_COMMIT
"""The number of the first file that no commit removes."""


def share_table(aws: EmbeddedAws, folder: Path, files: int) -> str:
    tables.write_table(folder / "large", files)
    return share(catalog_admin(aws), {"large": Mirror(s3_client(aws), DATA_BUCKET).add(folder / "large")})


def check(listed: Iterable[AddFile], files: int, *, may_reduce: bool = False) -> None:
    """Checks that every file of the log is listed once, with its values. Keeps only a hash of them.

    With `may_reduce`, statistics can be reduced to the number of records, but then those of all files.
    """
    in_log = map(tables.file, range(FIRST, files + FIRST))
    left = {file.path: (hash((file.size, file.day)), hash(file.stats)) for file in in_log}
    reduced = 0
    for file in listed:
        path = unquote(urlsplit(file.url).path).split("/", 3)[3]
        size_and_day, stats = left.pop(path)
        (day,) = file.partition_values.values()
        assert size_and_day == hash((file.size, day)), path
        if hash(file.stats) != stats:
            assert may_reduce
            assert json.loads(file.stats) == {"numRecords": tables.ROWS_PER_FILE}, path
            reduced += 1
    assert not left
    assert reduced in (0, files)


def test_100_000_files(aws: EmbeddedAws, tmp_path: Path) -> None:
    variables = set_up(aws)
    profile = DeltaSharingProfile(1, ENDPOINT, share_table(aws, tmp_path, 100_000))
    with running_loop(QUERY_TABLE, variables) as api, contextlib.closing(DataSharingRestClient(profile)) as client:
        client._session.mount("http://", LambdaAdapter(api))
        listed = client.list_files_in_table(Table("large", SHARE, SCHEMA))
    assert listed.delta_table_version == tables.CHECKPOINT_VERSION + tables.COMMITS
    check(listed.add_files, 100_000)


@pytest.mark.slow(reason="writes and lists a log of a million files")
@pytest.mark.timeout(1200)
def test_1_000_000_files(aws: EmbeddedAws, tmp_path: Path) -> None:
    variables = set_up(aws)
    token = share_table(aws, tmp_path, 1_000_000)
    url = f"{ENDPOINT}/shares/{SHARE}/schemas/{SCHEMA}/tables/large/query"
    with running_loop(QUERY_TABLE, variables) as api, requests.Session() as session:
        session.mount("http://", LambdaAdapter(api, seconds=900))
        headers = {"Authorization": f"Bearer {token}"}
        # As the published client does, but line by line: it would keep all of them in memory.
        with session.post(url, headers=headers, json={}, stream=True) as response:
            response.raise_for_status()
            lines = response.iter_lines(chunk_size=2**20, decode_unicode=True)
            assert "protocol" in json.loads(next(lines))
            assert "metaData" in json.loads(next(lines))
            check((AddFile.from_json(json.loads(line)["file"]) for line in lines), 1_000_000, may_reduce=True)
