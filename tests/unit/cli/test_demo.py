"""The parts of `sluice demo` that need no server: its clock and its snippets."""

import json
import sys
from pathlib import Path

import pytest

from cli.common.output import Output
from cli.demo.show import interpreter
from cli.demo.steps import Story


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


def tell(story: Story, clock: Clock) -> None:
    """Takes 2 s until the first step, 3 s for the step and 4 s after it."""
    clock.seconds += 2
    with story.step("Provider: writes"):
        clock.seconds += 3
    clock.seconds += 4
    story.end()


def test_the_total_is_the_time_that_a_person_waits_not_the_sum_of_the_steps(clock, capsys):
    tell(Story(Output(), started=clock() - 1, now=clock), clock)

    out = capsys.readouterr().out
    assert "  3.00 s" in out
    assert "Shared and read in 10.0 s" in out


def test_the_document_has_the_total_and_the_time_of_each_step(clock, capsys):
    tell(Story(Output(as_json=True), started=clock(), now=clock), clock)

    report = json.loads(capsys.readouterr().out)
    assert (report["seconds"], [step["seconds"] for step in report["steps"]]) == (9.0, [3.0])


def test_what_will_happen_is_said_at_once_but_not_in_a_document(clock, capsys):
    Story(Output(), now=clock).begin("Shares trips.")
    assert capsys.readouterr().out == "Shares trips.\n"
    Story(Output(as_json=True), now=clock).begin("Shares trips.")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("executable", "printed"),
    [
        (".venv/bin/python", ".venv/bin/python"),
        ("/opt/tools/bin/python3", "/opt/tools/bin/python3"),
        ("/opt/my tools/bin/python3", "'/opt/my tools/bin/python3'"),
    ],
)
def test_snippets_name_the_interpreter_that_has_the_client(monkeypatch, tmp_path, executable, printed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(Path.cwd() / executable))

    assert interpreter() == printed
