"""`sluice invoke` up to the emulator: which function an event gets, its token, its variables, and clear errors."""

import io
import json
import os
from pathlib import Path

import pytest

from cli.common.account import Account, environment_restored
from cli.common.errors import CommandError
from cli.invoke.event import find_function, load_event, with_token
from cli.invoke.run import answer_of
from cli.invoke.variables import function_variables, load_env_file
from cli.serve.routes import Function, read_routes

EVENTS = Path(__file__).parents[3] / "events"
ROUTES = read_routes()
FUNCTION = Function("QueryTable", "handlers.query_table.lambda_handler", 1769, 28)


@pytest.mark.parametrize("path", sorted(EVENTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_sample_event_gets_the_function_that_api_gateway_would_choose(path):
    event = load_event(path)

    expected = ROUTES.match(event["httpMethod"], event["requestContext"]["path"]).route.function
    assert find_function(ROUTES, event, None, path) == expected


@pytest.mark.parametrize("name", ["QueryTable", "querytable", "query_table"])
def test_a_function_can_be_chosen_by_name_whatever_the_event_is(name):
    assert find_function(ROUTES, {}, name, Path("x.json")).handler == "handlers.query_table.lambda_handler"


@pytest.mark.parametrize(
    ("event", "name", "words"),
    [
        (
            {},
            None,
            "x.json is not an API Gateway event: it needs `resource` and `httpMethod`. Choose one with --function",
        ),
        ({"resource": "/x", "httpMethod": "GET"}, None, "has no route GET /x. Choose one with --function: GetShare, "),
        ({"resource": "/shares", "httpMethod": "PUT"}, None, "has no route PUT /shares."),
        ({}, "Nothing", "has no function 'Nothing'. Choose one with --function: GetShare, "),
    ],
)
def test_the_error_for_an_event_without_a_function_lists_the_functions(event, name, words):
    with pytest.raises(CommandError) as refused:
        find_function(ROUTES, event, name, Path("x.json"))
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "is not JSON: "), (b"[]", "is not a JSON object."), (b"\xff\xfe", "is not a text file.")],
)
def test_a_file_that_holds_no_event_is_an_error_in_one_line(sluice, tmp_path, content, words):
    path = tmp_path / "event.json"
    path.write_bytes(content)

    result = sluice("invoke", str(path))

    assert (result.code, result.out) == (1, "")
    assert f"Error: {path} {words}" in result.err
    assert "No such file" in sluice("invoke", str(tmp_path / "none.json")).err


def test_an_event_can_come_from_stdin(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"httpMethod": "GET"}'))

    assert load_event(Path("-")) == {"httpMethod": "GET"}


class TestToken:
    @pytest.fixture
    def profile(self, tmp_path):
        path = tmp_path / "acme.share"
        path.write_text(json.dumps({"shareCredentialsVersion": 1, "bearerToken": "slc_secret"}))
        return path

    @pytest.mark.parametrize("name", ["query_table", "query_table_no_token"])
    def test_the_token_of_the_profile_replaces_that_of_the_event(self, profile, name):
        event = load_event(EVENTS / f"{name}.json")

        changed = with_token(event, profile)

        assert changed["headers"]["Authorization"] == "Bearer slc_secret"
        assert changed["multiValueHeaders"]["Authorization"] == ["Bearer slc_secret"]
        assert "placeholder" not in json.dumps(changed)
        assert changed.keys() == event.keys()

    def test_a_header_in_another_case_and_an_event_without_headers_are_handled(self, profile):
        changed = with_token({"headers": {"authorization": "Bearer old"}, "multiValueHeaders": None}, profile)

        assert changed["headers"] == {"Authorization": "Bearer slc_secret"}

    def test_a_file_without_a_token_is_refused(self, tmp_path):
        path = tmp_path / "other.json"
        path.write_text("{}")
        with pytest.raises(CommandError, match="is not a profile file"):
            with_token({}, path)


class TestEnvFile:
    @pytest.fixture
    def load(self, tmp_path):
        def call(text: str) -> dict[str, str]:
            path = tmp_path / "admin.env"
            path.write_text(text)
            with environment_restored():
                load_env_file(path)
                return dict(os.environ)

        return call

    def test_it_is_read_as_a_shell_reads_it(self, load, monkeypatch):
        monkeypatch.setenv("AWS_PROFILE", "mine")

        loaded = load("# a comment\nunset AWS_PROFILE\n\nexport A='two words'\nB=1 # one\nexport EMPTY=''\n")

        assert (loaded["A"], loaded["B"], loaded["EMPTY"], "AWS_PROFILE" in loaded) == ("two words", "1", "", False)
        assert "A" not in os.environ

    @pytest.mark.parametrize("line", ["secret", "export secret", "1=secret", "A='secret", "source secret.env"])
    def test_a_line_that_cannot_be_read_is_named_by_number_and_not_shown(self, load, line):
        with pytest.raises(CommandError) as refused:
            load(f"A=1\n{line}\n")

        assert "admin.env:2: expected NAME=value" in refused.value.message
        assert "secret" not in refused.value.message.rpartition("/")[2]


class TestVariables:
    def test_a_function_gets_the_account_its_settings_and_nothing_else_of_the_caller(self, sluice, monkeypatch):
        monkeypatch.setenv("SLUICE_URL_SECONDS", "1800")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMINE")
        monkeypatch.setenv("UNRELATED", "1")

        with environment_restored():
            variables = function_variables(Account("my-catalog", "eu-west-1", "http://127.0.0.1:9"), FUNCTION)

        assert variables["SLUICE_CATALOG_TABLE"] == "my-catalog"
        assert (variables["AWS_REGION"], variables["AWS_ENDPOINT_URL"]) == ("eu-west-1", "http://127.0.0.1:9")
        assert variables["AWS_ACCESS_KEY_ID"] == "AKIAMINE"
        assert variables["SLUICE_URL_SECONDS"] == "1800"
        assert "UNRELATED" not in variables
        assert (variables["AWS_LAMBDA_FUNCTION_NAME"], variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]) == (
            "QueryTable",
            "1769",
        )

    def test_the_keys_of_a_profile_are_passed_instead_of_its_name(self, sluice, monkeypatch, tmp_path):
        credentials = tmp_path / "credentials"
        credentials.write_text(
            "[dev]\naws_access_key_id = AKIADEV\naws_secret_access_key = s\naws_session_token = t\nregion = eu-west-1\n"
        )
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

        with environment_restored():
            variables = function_variables(Account(profile="dev"), FUNCTION)

        assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SESSION_TOKEN"]) == ("AKIADEV", "t")
        assert variables["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
        assert "AWS_PROFILE" not in variables

    def test_without_credentials_the_error_names_the_env_file(self, sluice, monkeypatch):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)

        result = sluice("invoke", str(EVENTS / "query_table.json"), "--json")

        assert result.code == 1
        assert "No AWS credentials found. Use --env-file" in result.json["error"]


def test_other_systems_than_linux_are_told_what_works_there(sluice, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("cli.invoke.emulator.is_installed", lambda: True)

    result = sluice("invoke", str(EVENTS / "query_table.json"))

    assert result.code == 1
    assert "runs on Linux only. Use `sam local invoke`, which needs Docker, or `sluice serve`." in result.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"errorMessage": "boom", "errorType": "KeyError"}',
            "The function F failed: KeyError: boom. Its log says where.",
        ),
        ("2026-11-18 Task timed out after 10.00 seconds\n", "Task timed out after 10.00 seconds."),
        ("null", "it returned no HTTP response"),
    ],
)
def test_a_function_that_fails_or_times_out_is_an_error(text, words):
    with pytest.raises(CommandError) as failed:
        answer_of("F", text)
    assert words in failed.value.message
