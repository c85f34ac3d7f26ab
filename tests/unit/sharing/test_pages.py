"""Paged and refreshed answers: one version, no gaps, and only what the table shares."""

import json
from dataclasses import replace

import pytest

from core.api.requests import query as query_module
from core.api.requests.query import QueryRequest
from core.api.table_tokens import CHAIN_SECONDS, REFRESH_LIFETIME_SECONDS
from core.errors import MalformedRequestError
from tests.unit.delta.builder import PROTOCOL, Action, add, checkpoint, metadata, name, remove
from tests.unit.sharing.pages import FEED, first_token, five_files, letters, refresh_token, refusal, rows
from tests.unit.sharing.shared_table import DELTA, NOW, SharedTable


class TestSnapshots:
    @pytest.mark.parametrize("capabilities", ["", DELTA])
    @pytest.mark.parametrize(
        ("size", "expected"),
        [(1, ["a", "b", "c", "d", "e"]), (2, ["ab", "cd", "e"]), (5, ["abcde"]), (2**31 - 1, ["abcde"])],
    )
    def test_each_page_has_the_requested_number_of_files_after_the_same_two_lines(
        self, capabilities: str, size: int, expected: list[str]
    ) -> None:
        env = five_files()
        env.query(capabilities)
        whole = env.raw
        pages = env.pages(env.query, capabilities, maxFiles=size)
        assert list(map(letters, pages)) == expected
        assert all(page[:2] == whole[:2] for page in pages)
        assert [line for page in pages for line in page[2:]] == whole[2:]

    def test_all_pages_read_the_version_of_the_first_page_despite_new_commits(self) -> None:
        env = five_files()
        versions = []

        def commit() -> None:
            versions.append(env.headers["Delta-Table-Version"])
            number = len(versions)
            env.lake.commit(number, remove("edcba"[number]), add(f"{number}"), metadata(name=f"{number}"))
            rows = [add(letter) for letter in "edcba"]
            env.lake.put(name(number - 1, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *rows))
            env.restart()

        pages = env.pages(env.query, between=commit, maxFiles=1)
        assert list(map(letters, pages)) == ["a", "b", "c", "d", "e"]
        assert versions == ["0"] * 4
        assert len({tuple(page[:2]) for page in pages}) == 1

    def test_there_is_no_next_page_if_all_remaining_files_are_pruned(self) -> None:
        env = SharedTable(
            [PROTOCOL, metadata(), *(add(letter, p=value) for letter, value in zip("abcde", "xxyxz", strict=True))]
        )
        for size, expected in ((1, ["a", "b", "d"]), (2, ["ab", "d"]), (3, ["abd"])):
            pages = env.pages(env.query, maxFiles=size, predicateHints=["p = 'x'"])
            assert list(map(letters, pages)) == expected
        assert list(map(letters, env.pages(env.query, maxFiles=1, predicateHints=["p = 'nothing'"]))) == [""]
        assert env.raw[-1] == b'{"endStreamAction":{}}'

    def test_a_limit_counts_rows_across_pages(self) -> None:
        env = five_files()
        for limit, expected in ((30, "abc"), (31, "abcd"), (0, "")):
            for size in (1, 2, 3):
                pages = env.pages(env.query, maxFiles=size, limitHint=limit)
                assert "".join(map(letters, pages)) == expected
                assert len(pages) == max(-(-len(expected) // size), 1)

    def test_a_next_page_without_max_files_has_all_remaining_files(self) -> None:
        env = five_files()
        rest = env.query(pageToken=first_token(env))
        assert letters(env.raw) == "cde"
        assert "endStreamAction" not in rest[-1]
        env.query(pageToken=first_token(env), maxFiles=1)
        assert letters(env.raw) == "c"

    def test_the_server_limits_the_number_of_files_on_a_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(query_module, "MAX_PAGE_FILES", 2)
        env = five_files()
        assert list(map(letters, env.pages(env.query, maxFiles=100))) == ["ab", "cd", "e"]
        env.query()
        assert letters(env.raw) == "abcde"

    def test_files_have_a_version_on_every_page_if_a_version_was_requested(self) -> None:
        env = five_files()
        env.lake.commit(1, add("f"))
        for point_in_time in ({"version": 0}, {"timestamp": "1970-01-01T00:00:00.5Z"}):
            pages = env.pages(env.query, maxFiles=2, **point_in_time)
            assert list(map(letters, pages)) == ["ab", "cd", "e"]
            assert all(b'"version":0,"timestamp":0' in line for page in pages for line in page[2:])
        assert not any(b'"version"' in line for page in env.pages(env.query, maxFiles=2) for line in page)

    def test_a_timestamp_is_resolved_only_for_the_first_page(self) -> None:
        env = five_files()
        token = first_token(env, timestamp="1970-01-01T00:00:00Z")
        body, _ = env.lake.s3.objects[env.lake.location.key(name(0))]
        env.lake.put(name(0), body, at_ms=60_000)
        env.restart()
        assert "is before the earliest" in refusal(env.query, timestamp="1970-01-01T00:00:00Z")
        env.query(timestamp="1970-01-01T00:00:00Z", pageToken=token)
        assert letters(env.raw) == "cde"


class TestChains:
    """A chain of page tokens ends a day after its first page, however often the next page is requested."""

    @pytest.mark.parametrize(
        ("route", "parameters"), [("query", {}), ("query", {"startingVersion": 0}), ("changes", {"startingVersion": 0})]
    )
    def test_a_chain_of_pages_ends_a_day_after_its_first_page(self, route: str, parameters: dict[str, int]) -> None:
        env = five_files()
        ask = getattr(env, route)
        token = ask(maxFiles=1, **parameters)[-1]["endStreamAction"]["nextPageToken"]
        for hours in (10, 20):
            env.now = NOW + hours * 3600
            env.restart()
            end = ask(maxFiles=1, pageToken=token, **parameters)[-1]["endStreamAction"]
            token = end["nextPageToken"]
        env.now = NOW + CHAIN_SECONDS - 1
        ask(maxFiles=1, pageToken=token, **parameters)
        assert letters(env.raw) == "d"
        env.now = NOW + CHAIN_SECONDS
        expired = refusal(ask, maxFiles=1, pageToken=token, **parameters)
        assert expired == "The page token has expired. Please restart the query."

    def test_the_pages_of_a_refreshed_answer_end_with_the_chain_of_its_refresh_tokens(self) -> None:
        env = five_files(history_shared=False)
        refresh = refresh_token(env)
        env.now = NOW + 1800
        token = first_token(env, refreshToken=refresh)
        env.now = NOW + CHAIN_SECONDS - 1
        env.query(pageToken=token)
        env.now = NOW + CHAIN_SECONDS
        assert refusal(env.query, pageToken=token) == "The page token has expired. Please restart the query."

    def test_a_token_that_was_issued_before_chains_cannot_be_decoded(self) -> None:
        env = five_files()
        fields = json.dumps([env.table.id, QueryRequest().checksum, 0, "-1:0", "", 2, 0]).encode()
        token = env.tokens().tokens.issue(("query", "r-1"), fields, lifetime_seconds=3600)
        assert refusal(env.query, pageToken=token).startswith("Error decoding the page token")


class TestRanges:
    def many_commits(self) -> SharedTable:
        """Version 0: files a and b. 1: metadata and file c. 2: metadata. 3: files d and e. 4: metadata."""
        properties = metadata(configuration=FEED)
        return SharedTable(
            [PROTOCOL, properties, add("a"), add("b")],
            [properties, add("c")],
            [properties],
            [add("d"), add("e")],
            [properties],
        )

    @pytest.mark.parametrize("capabilities", ["", DELTA])
    @pytest.mark.parametrize("route", ["query", "changes"])
    @pytest.mark.parametrize("size", range(1, 6))
    def test_metadata_changes_are_sent_once_and_do_not_count_towards_the_page_size(
        self, capabilities: str, route: str, size: int
    ) -> None:
        env = self.many_commits()
        ask = getattr(env, route)
        parameters = {"startingVersion": 0, "includeHistoricalMetadata": "true"}
        ask(capabilities, **parameters)
        whole = env.raw
        pages = env.pages(ask, capabilities, maxFiles=size, **parameters)
        assert [len(letters(page)) for page in pages] == [size] * (5 // size) + ([5 % size] if 5 % size else [])
        assert all(page[:2] == whole[:2] for page in pages)
        assert [line for page in pages for line in page[2:]] == whole[2:]

    @pytest.mark.parametrize("route", ["query", "changes"])
    def test_the_first_page_fixes_the_end_of_a_range(self, route: str) -> None:
        env = self.many_commits()
        ask = getattr(env, route)

        def commit() -> None:
            assert env.headers["Delta-Table-Version"] == "1"
            version = max(int(key[-25:-5]) for key in env.lake.s3.objects if key.endswith(".json")) + 1
            env.lake.commit(version, add(f"{version}"), metadata(configuration=FEED, name=f"{version}"))
            env.restart()

        pages = env.pages(ask, between=commit, maxFiles=1, startingVersion=1)
        assert list(map(letters, pages)) == ["c", "d", "e"]
        assert len({tuple(page[:2]) for page in pages}) == 1

    def test_the_first_page_fixes_the_end_of_a_change_feed_that_ends_at_a_timestamp(self) -> None:
        env = self.many_commits()
        edges = {"startingTimestamp": "1970-01-01T00:00:01Z", "endingTimestamp": "1970-01-01T00:00:03Z"}
        pages = env.pages(env.changes, between=lambda: env.lake.commit(5, add("f")), maxFiles=2, **edges)
        assert list(map(letters, pages)) == ["cd", "e"]

    def test_a_removed_file_is_read_with_the_partitioning_of_the_version_before_its_page(self) -> None:
        """The partitioning may differ from that of the first version of the range."""
        remove_without_partition: Action = {"remove": {"path": "a", "dataChange": True, "size": 1}}
        env = SharedTable(
            [PROTOCOL, metadata(), add("a")],
            [metadata(partitionColumns=[])],
            [add("b", partitionValues={})],
            [remove_without_partition],
        )
        assert list(map(letters, env.pages(env.query, startingVersion=0, maxFiles=2))) == ["ab", "a"]

    def test_the_error_for_a_disabled_change_feed_names_the_whole_range(self) -> None:
        env = SharedTable(
            [PROTOCOL, metadata(configuration=FEED), add("a"), add("b")], [add("c")], [metadata(), add("d")]
        )
        end = env.changes(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]
        env.changes(startingVersion=0, maxFiles=1, pageToken=end["nextPageToken"])
        message = refusal(env.changes, startingVersion=0, pageToken=end["nextPageToken"])
        assert message == ("Error getting change data for range [0, 2] as change data was not recorded for version [2]")

    @pytest.mark.parametrize("warm", [True, False])
    @pytest.mark.parametrize("route", ["query", "changes"])
    def test_commits_that_were_cleaned_up_are_reported(self, route: str, warm: bool) -> None:
        env = self.many_commits()
        ask = getattr(env, route)
        token = ask(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]["nextPageToken"]
        kept = [PROTOCOL, metadata(configuration=FEED), *map(add, "abcde")]
        env.lake.put(name(4, "checkpoint.parquet"), checkpoint(*kept))
        env.lake.delete(*map(name, range(4)))
        if not warm:
            env.restart()
        message = refusal(ask, startingVersion=0, pageToken=token)
        assert message.endswith("The earliest available version is 4.")

    def test_a_next_page_does_not_read_the_beginning_of_the_log_again(self) -> None:
        """From the third page on, reads at most the remaining commits of the range and those of the previous page."""
        commits = [[add(f"{version}")] for version in range(1, 31)]
        env = SharedTable([PROTOCOL, metadata(configuration=FEED)], *commits)
        for ask in (env.query, env.changes):
            env.restart()
            token: dict[str, str] = {}
            reads = []
            while "pageToken" not in token or token["pageToken"]:
                env.lake.requests.clear()
                end = ask(DELTA, startingVersion=5, maxFiles=5, **token)[-1]["endStreamAction"]
                token = {"pageToken": end.get("nextPageToken", "")}
                reads.append(env.lake.requests.count("GetObject"))
            assert len(reads) == 6
            assert all(read <= 5 + left for read, left in zip(reads[2:], (17, 12, 7, 2), strict=True))


class TestRefreshes:
    @pytest.mark.parametrize("capabilities", ["", DELTA])
    def test_a_refreshed_answer_equals_the_original_despite_new_commits(self, capabilities: str) -> None:
        env = five_files(history_shared=False)
        env.query(capabilities)
        whole = env.raw
        token = refresh_token(env)
        env.lake.commit(1, remove("a"), add("f"), metadata(name="new"))
        env.restart()
        end = env.query(capabilities, refreshToken=token, includeRefreshToken=True)[-1]["endStreamAction"]
        assert env.raw[:-1] == whole
        assert env.headers["Delta-Table-Version"] == "0"
        env.query(capabilities, refreshToken=end["refreshToken"])
        assert env.raw == whole

    def test_the_head_does_not_depend_on_the_order_of_features_and_properties_in_a_checkpoint(self) -> None:
        def head(features: list[str], **properties: str) -> list[Action]:
            names = {"readerFeatures": features, "writerFeatures": features}
            options = {"format": {"provider": "parquet", "options": properties}, "configuration": properties}
            return [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | names}, metadata(**options)]

        mapped = {"delta.columnMapping.mode": "name", "a": "1"}
        env = SharedTable([*head(["deletionVectors", "columnMapping"], **mapped), add("a")])
        token = env.query(DELTA, includeRefreshToken=True)[-1]["endStreamAction"]["refreshToken"]
        first = env.raw
        reordered = head(["columnMapping", "deletionVectors"], **dict(reversed(mapped.items())))
        env.lake.put(name(0, "checkpoint.parquet"), checkpoint(*reordered, add("a")))
        env.restart()
        env.query(DELTA, refreshToken=token)
        assert env.raw[:2] == first[:2]

    @pytest.mark.parametrize("size", [{}, {"maxFiles": 10}])
    def test_a_refresh_with_a_limit_returns_the_same_files(self, size: dict[str, int]) -> None:
        env = five_files()
        token = refresh_token(env, limitHint=15)
        assert letters(env.raw) == "ab"
        reversed_files = [add(letter, **rows(10)) for letter in "edcba"]
        env.lake.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(configuration=FEED), *reversed_files))
        env.restart()
        env.query(limitHint=15)
        assert letters(env.raw) == "ed"
        env.query(refreshToken=token, limitHint=15, **size)
        assert letters(env.raw) == "ab"

    def test_a_refresh_with_a_limit_may_return_other_files_if_their_order_is_lost(self) -> None:
        env = five_files()
        token = refresh_token(env, limitHint=15)
        reversed_files = [add(letter, **rows(10)) for letter in "edcba"]
        env.lake.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(configuration=FEED), *reversed_files))
        env.lake.delete(name(0))
        env.restart()
        env.query(refreshToken=token, limitHint=15)
        assert letters(env.raw) == "ed"

    def test_a_warm_process_uses_a_file_order_that_other_processes_can_reproduce(self) -> None:
        env = five_files()
        env.query()
        reversed_files = [add(letter, **rows(10)) for letter in "edcba"]
        env.lake.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(configuration=FEED), *reversed_files))
        env.lake.commit(1)
        env.lake.delete(name(0))
        token = refresh_token(env, limitHint=15)
        assert letters(env.raw) == "ed"
        env.restart()
        env.query(refreshToken=token, limitHint=15)
        assert letters(env.raw) == "ed"

    def test_a_warm_process_issues_a_refresh_token_with_one_list_request(self) -> None:
        env = five_files()
        env.query()
        env.lake.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
        env.lake.requests.clear()
        refresh_token(env)
        assert env.lake.requests == ["ListObjectsV2"]

    def test_a_chain_of_refreshes_ends_after_a_day(self) -> None:
        env = five_files(history_shared=False)
        token = refresh_token(env)
        while env.now + REFRESH_LIFETIME_SECONDS < NOW + CHAIN_SECONDS:
            env.now += REFRESH_LIFETIME_SECONDS - 1
            token = refresh_token(env, refreshToken=token)
        env.now = NOW + CHAIN_SECONDS - 1
        env.query(refreshToken=token)
        env.now = NOW + CHAIN_SECONDS
        assert refusal(env.query, refreshToken=token) == "The refresh token has expired. Please restart the query."

    def test_a_refresh_may_change_the_limit_and_use_pages(self) -> None:
        env = five_files(history_shared=False)
        token = refresh_token(env, limitHint=1)
        env.lake.commit(1, remove("a"))
        end = env.query(refreshToken=token, maxFiles=3)[-1]["endStreamAction"]
        assert letters(env.raw) == "abc"
        env.query(pageToken=end["nextPageToken"])
        assert letters(env.raw) == "de"

    def test_a_version_that_was_cleaned_up_is_reported(self) -> None:
        env = five_files()
        token = refresh_token(env)
        env.lake.put(name(1, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
        env.lake.delete(name(0))
        with pytest.raises(MalformedRequestError, match="earliest available version is 1"):
            env.query(refreshToken=token)


class TestSharedHistory:
    def test_pages_do_not_require_shared_history(self) -> None:
        env = five_files(history_shared=False)
        env.lake.commit(1, add("f"))
        assert letters([line for page in env.pages(env.query, maxFiles=4) for line in page]) == "abcdef"

    def test_every_page_of_a_named_version_requires_shared_history(self) -> None:
        env = five_files()
        token = first_token(env, version=0)
        env.table = replace(env.table, history_shared=False)
        assert "history sharing is not enabled" in refusal(env.query, version=0, pageToken=token)

    def test_tokens_of_versions_before_the_start_version_are_refused(self) -> None:
        env = five_files()
        token, refresh = first_token(env), refresh_token(env)
        changes = env.changes(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]["nextPageToken"]
        env.lake.commit(1, add("f"))
        env.table = replace(env.table, start_version=1)
        assert refusal(env.query, pageToken=token) == "You can only query table data since version 1."
        assert refusal(env.query, refreshToken=refresh) == "You can only query table data since version 1."
        assert refusal(env.changes, startingVersion=0, pageToken=changes) == (
            "You can only query table changes since version 1."
        )
