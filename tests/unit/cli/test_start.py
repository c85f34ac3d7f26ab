"""The entry point of the `sluice` script."""

import sys

import pytest

from cli import start


class Finder:
    """Fails to import `cli.main` with a given error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "cli.main":
            raise self._error


@pytest.fixture
def importing_fails(monkeypatch):
    def fail(error: BaseException) -> None:
        monkeypatch.delitem(sys.modules, "cli.main", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Finder(error), *sys.meta_path])

    return fail


def test_an_import_error_is_not_hidden(importing_fails):
    importing_fails(ModuleNotFoundError("No module named 'broken'", name="broken"))
    with pytest.raises(ModuleNotFoundError, match="No module named 'broken'"):
        start.main()


def test_an_interrupt_during_the_imports_ends_the_command_quietly(importing_fails, capsys):
    importing_fails(KeyboardInterrupt())
    with pytest.raises(SystemExit) as end:
        start.main()
    assert end.value.code == 130
    assert capsys.readouterr() == ("", "")
