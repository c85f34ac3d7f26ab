"""Page and refresh tokens are valid only for the table, the query and the log that they were issued for."""

from dataclasses import replace
from typing import Any

import pytest

from core.api.table_tokens import CHAIN_SECONDS, REFRESH_LIFETIME_SECONDS
from core.errors import InvalidParameterError, MalformedRequestError
from tests.unit.delta.builder import PROTOCOL, add, checkpoint, metadata, name
from tests.unit.sharing.pages import MISMATCH, first_token, five_files, letters, refresh_token, refusal
from tests.unit.sharing.shared_table import DELTA, NOW


class TestTokens:
    @pytest.mark.parametrize(
        "change",
        [
            {"limitHint": 3},
            {"predicateHints": ["p = 'y'"]},
            {"predicateHints": []},
            {"jsonPredicateHints": "{}"},
            {"version": 0},
            {"timestamp": "1970-01-01T00:00:00Z"},
            {"includeHistoricalProtocol": True},
        ],
    )
    def test_a_token_of_another_query_is_refused(self, change: dict[str, Any]) -> None:
        env = five_files()
        parameters = {"predicateHints": ["p = 'x'"], "limitHint": 40}
        token = first_token(env, **parameters)
        assert refusal(env.query, pageToken=token, **parameters | change) == MISMATCH

    def test_page_size_format_and_file_id_hash_may_change_between_pages(self) -> None:
        env = five_files()
        env.query(DELTA, "parquet", pageToken=first_token(env), maxFiles=100)
        assert letters(env.raw) == "cde"

    @pytest.mark.parametrize(
        "change",
        [
            {"startingVersion": 1},
            {"endingVersion": 0},
            {"endingTimestamp": "2040-01-01T00:00:00Z"},
            {"includeHistoricalMetadata": "true"},
            {"includeHistoricalProtocol": "true"},
        ],
    )
    def test_a_token_of_another_change_feed_request_is_refused(self, change: dict[str, Any]) -> None:
        env = five_files()
        parameters = {"startingVersion": 0}
        token = env.changes(maxFiles=2, **parameters)[-1]["endStreamAction"]["nextPageToken"]
        assert refusal(env.changes, pageToken=token, **parameters | change) == MISMATCH

    def test_a_token_is_refused_for_another_purpose(self) -> None:
        env = five_files()
        query, stream, refresh = first_token(env), first_token(env, startingVersion=0), refresh_token(env)
        changes = env.changes(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]["nextPageToken"]
        undecodable = "Error decoding the page token: {}."
        for token in (changes, refresh):
            assert refusal(env.query, pageToken=token) == undecodable.format(token[:100])
        assert refusal(env.query, pageToken=stream) == MISMATCH
        assert refusal(env.query, startingVersion=0, pageToken=query) == MISMATCH
        for token in (query, stream, refresh):
            message = refusal(env.changes, startingVersion=0, pageToken=token)
            assert message == undecodable.format(token[:100])
        for token in (query, stream, changes):
            assert refusal(env.query, refreshToken=token) == f"Error decoding refresh token: {token[:100]}."

    def test_another_table_is_reported_before_another_query(self) -> None:
        env = five_files()
        page, refresh = first_token(env), refresh_token(env)
        changes = env.changes(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]["nextPageToken"]
        env.table = replace(env.table, id="another")
        other = "The table specified in the {} token does not match the table being queried."
        assert refusal(env.query, pageToken=page, limitHint=7) == other.format("page")
        assert refusal(env.changes, startingVersion=0, pageToken=changes) == other.format("page")
        assert refusal(env.query, refreshToken=refresh) == other.format("refresh")

    def test_an_expired_token_is_reported_before_another_table(self) -> None:
        env = five_files()
        page, refresh = first_token(env), refresh_token(env)
        for lifetime, parameters in (
            (REFRESH_LIFETIME_SECONDS, {"refreshToken": refresh}),
            (CHAIN_SECONDS, {"pageToken": page}),
        ):
            expires_at = NOW + lifetime
            env.now, env.table = expires_at - 1, replace(env.table, id="t-1")
            env.query(**parameters)
            env.now, env.table = expires_at, replace(env.table, id="another")
            kind = next(iter(parameters)).removesuffix("Token")
            assert refusal(env.query, **parameters) == f"The {kind} token has expired. Please restart the query."

    def test_a_version_that_was_cleaned_up_requires_a_restart(self) -> None:
        env = five_files()
        token = first_token(env)
        env.lake.put(name(1, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
        env.lake.delete(name(0))
        with pytest.raises(MalformedRequestError, match="Please restart the query.$"):
            env.query(pageToken=token)

    @pytest.mark.parametrize("warm", [True, False])
    def test_another_log_at_the_same_location_requires_a_restart(self, warm: bool) -> None:
        env = five_files()
        env.lake.commit(1, add("f"))
        changes = env.changes(startingVersion=0, maxFiles=1)[-1]["endStreamAction"]["nextPageToken"]
        requests: list[tuple[Any, dict[str, Any]]] = [
            (env.query, {"pageToken": first_token(env)}),
            (env.query, {"pageToken": first_token(env, startingVersion=0), "startingVersion": 0}),
            (env.changes, {"pageToken": changes, "startingVersion": 0}),
            (env.query, {"refreshToken": refresh_token(env)}),
            (env.query, {"refreshToken": refresh_token(env, limitHint=3), "limitHint": 3}),
        ]
        env.lake.commit(1, add("g"), add("h"))
        env.lake.commit(2, add("i"))
        for ask, body in requests:
            if not warm:
                env.restart()
            assert refusal(ask, **body) == (
                "Table version 1 can no longer be read in the same state, because the table's transaction log was "
                "cleaned up or rewritten. Please restart the query."
            )

    def test_an_invalid_token_is_refused_before_the_log_is_read(self) -> None:
        env = five_files()
        for body in ({"pageToken": "x"}, {"refreshToken": "x"}, {"startingVersion": 0, "pageToken": "x"}):
            with pytest.raises(InvalidParameterError):
                env.query(**body)
        assert env.lake.requests == []
