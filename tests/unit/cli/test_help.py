"""Help pages and wrong usage."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from cli.main import app


def test_wrong_usage_has_exit_code_2_and_help_has_0(sluice):
    assert sluice("share", "explode").code == 2
    assert sluice("table", "add", "a.b.c").code == 2
    assert sluice("--help").code == 0
    version = sluice("--version")
    assert (version.code, version.out.split()[0]) == (0, "sluice")


@pytest.mark.parametrize(
    "command",
    [
        *(("share", verb) for verb in ("list", "show", "add", "remove")),
        *(("schema", verb) for verb in ("list", "show", "add", "remove")),
        *(("table", verb) for verb in ("list", "show", "add", "remove")),
        *(("recipient", verb) for verb in ("list", "show", "add", "remove")),
        *(("token", verb) for verb in ("issue", "list", "rotate", "revoke")),
        *(("index", verb) for verb in ("build", "status")),
        *((verb,) for verb in ("init", "apply", "grant", "revoke", "doctor", "explain", "serve", "demo", "invoke")),
    ],
)
def test_every_command_has_help_and_json(sluice, command):
    result = sluice(*command, "--help")

    assert result.code == 0
    assert "--json " in result.out


def pages_of_help(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from pages_of_help(subcommand, *path, name)


def test_no_help_page_shows_a_type_of_python_or_a_default_in_brackets(sluice, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pages = list(pages_of_help(typer.main.get_command(app)))
    assert len(pages) > 30

    for page in pages:
        shown = sluice(*page, "--help").out
        assert re.findall(r"<(?:bool|str|int|float|list|path)\b[^>]*>|\[default: \(|\{[A-Z]", shown) == [], shown


def test_help_shows_what_an_option_takes(sluice, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = [re.split(r"\s{2,}", line.strip("│ ")) for line in sluice("serve", "--help").out.splitlines()]

    assert ["--port", "PORT [0<=x<=65535]", "Port to listen on. 0 picks a free one. Default: 8080."] in lines
    assert ["--json", "Print one JSON document instead of text."] in lines
    assert "Usage: sluice grant [OPTIONS] RECIPIENT SHARE..." in sluice("grant", "--help").out
