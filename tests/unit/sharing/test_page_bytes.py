"""A page ends before its answer is too large to send, and all pages together are the whole answer."""

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from core.errors import AnswerTooLargeError
from core.runtime import events
from core.runtime.events import MAX_ANSWER_BYTES, PAGE_END_BYTES
from tests.unit.delta.builder import PROTOCOL, Action, add, checkpoint, metadata, name
from tests.unit.sharing.pages import FEED, refusal
from tests.unit.sharing.shared_table import DELTA, SharedTable

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "query": ("query", {}),
    "stream": ("query", {"startingVersion": 0}),
    "changes": ("changes", {"startingVersion": 0}),
}
HEAD = [PROTOCOL, metadata(configuration=FEED)]
# A line of a file has about a kilobyte. Gzip halves it, because the signatures and paths are random.
NUM_FILES = 1500
PAGE_BYTES = 400_000


def wide_files(number: int = NUM_FILES, *, stats_bytes: int = 300) -> list[Action]:
    """Files whose statistics contain quotes and backslashes, which JSON escapes."""
    noise = random.Random(5)

    def stats() -> str:
        return json.dumps({"numRecords": 10, "x": "\\" + noise.randbytes(stats_bytes // 2).hex()})

    return [add(noise.randbytes(16).hex(), stats=stats()) for _ in range(number)]


def large_table(files: list[Action], *, from_checkpoint: bool = False) -> SharedTable:
    """A table in a few commits, or in a checkpoint."""
    if not from_checkpoint:
        cuts = [len(files) * part // 4 for part in range(5)]
        commits = [files[begin:end] for begin, end in pairwise(cuts)]
        return SharedTable([*HEAD, *commits[0]], *commits[1:])
    table = SharedTable([*HEAD, *files], [])
    table.lake.put(name(0, "checkpoint.parquet"), checkpoint(*HEAD, *files))
    return table


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_ANSWER_BYTES", PAGE_BYTES)


@pytest.mark.parametrize("accept_encoding", ["identity", "gzip"])
@pytest.mark.parametrize("capabilities", ["", DELTA])
@pytest.mark.parametrize(("kind", "from_checkpoint"), [*((kind, False) for kind in KINDS), ("query", True)])
@pytest.mark.usefixtures("small_answers")
def test_pages_are_as_large_as_an_answer_can_be_and_together_equal_the_whole(
    kind: str, from_checkpoint: bool, capabilities: str, accept_encoding: str
) -> None:
    env = large_table(wide_files(), from_checkpoint=from_checkpoint)
    route, parameters = KINDS[kind]
    ask = getattr(env, route)
    ask(capabilities, maxFiles=10_000, **parameters)
    *whole, end = env.raw
    assert b"nextPageToken" not in end, "without a front end, there is no limit"
    env.accept_encoding = accept_encoding
    sent = []
    pages = env.pages(ask, capabilities, between=lambda: sent.append(env.sent_bytes), maxFiles=10_000, **parameters)
    assert len(pages) > 1
    assert all(page[:2] == whole[:2] for page in pages)
    assert [line for page in pages for line in page[2:]] == whole[2:]
    # Gzip collects 64 kB before it compresses, and until then counts them as incompressible.
    unused = PAGE_END_BYTES + 5_000 + (90_000 if accept_encoding == "gzip" else 0)
    assert all(PAGE_BYTES - unused < size <= PAGE_BYTES for size in sent)


@pytest.mark.parametrize("kind", KINDS)
def test_10_000_files_without_gzip_are_split_into_pages_of_6_mb(kind: str) -> None:
    env = large_table(wide_files(6000, stats_bytes=1000))
    env.accept_encoding = "identity"
    route, parameters = KINDS[kind]
    sent: list[int] = []
    between = lambda: sent.append(env.sent_bytes)  # noqa: E731
    pages = env.pages(getattr(env, route), between=between, maxFiles=10_000, **parameters)
    assert sum(len(page) - 2 for page in pages) == 6000
    assert len(pages) == 2
    assert all(MAX_ANSWER_BYTES - 10_000 < size <= MAX_ANSWER_BYTES for size in sent)


@pytest.mark.usefixtures("small_answers")
class TestSmallAnswers:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("accept_encoding", ["identity", "gzip"])
    def test_an_answer_without_pages_never_ends_early(self, kind: str, accept_encoding: str) -> None:
        env = large_table(wide_files())
        env.accept_encoding = accept_encoding
        route, parameters = KINDS[kind]
        assert "maxFiles" in refusal(getattr(env, route), **parameters)
        ended = "responseformat=parquet;includeendstreamaction=true"
        assert "maxFiles" in refusal(getattr(env, route), ended, **parameters)

    def test_a_limit_counts_rows_across_pages_that_end_early(self) -> None:
        env = large_table(wide_files())
        env.accept_encoding = "identity"
        pages = env.pages(env.query, maxFiles=10_000, limitHint=9995)
        assert len(pages) > 2
        assert sum(len(page) - 2 for page in pages) == 1000

    def test_only_files_in_the_answer_are_counted_as_listed(self) -> None:
        env = large_table(wide_files())
        env.accept_encoding = "identity"
        for route, parameters in KINDS.values():
            lines = getattr(env, route)(maxFiles=10_000, **parameters)
            assert "nextPageToken" in lines[-1]["endStreamAction"]
            assert env.observed.files_listed == len(lines) - 3

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_file_that_does_not_fit_on_a_page_of_its_own_is_a_400(self, kind: str) -> None:
        env = large_table([add("0"), *wide_files(3, stats_bytes=PAGE_BYTES)])
        env.accept_encoding = "identity"
        route, parameters = KINDS[kind]
        ask = getattr(env, route)
        end = ask(maxFiles=10, **parameters)[-1]["endStreamAction"]
        with pytest.raises(AnswerTooLargeError):
            ask(maxFiles=10, pageToken=end["nextPageToken"], **parameters)

    @pytest.mark.parametrize("accept_encoding", ["identity", "gzip"])
    def test_changes_of_the_metadata_stay_in_front_of_their_files(self, accept_encoding: str) -> None:
        """A change of the metadata is half as large as a page."""
        description = random.Random(5).randbytes(PAGE_BYTES // 4).hex()
        changed = metadata(configuration=FEED, description=description)
        env = SharedTable([*HEAD, *wide_files(10)], [changed, add("b")], [changed], [add("c")], [changed])
        parameters = {"startingVersion": 0, "includeHistoricalMetadata": "true"}
        for ask in (env.query, env.changes):
            env.accept_encoding = None
            ask(**parameters)
            whole = env.raw
            env.accept_encoding = accept_encoding
            pages = env.pages(ask, maxFiles=100, **parameters)
            assert [line for page in pages for line in page[2:]] == whole[2:]
            assert len(pages) > 1
