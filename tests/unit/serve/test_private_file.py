"""Files that hold a secret."""

import stat

import pytest

from cli.common.errors import CommandError
from cli.common.private_file import write_private


def test_a_file_is_for_its_owner_only_even_where_another_was(tmp_path):
    path = tmp_path / "profile.share"
    path.write_text("of someone else")
    path.chmod(0o644)
    write_private(path, "secret")
    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CommandError, match="cannot be written: Is a directory"):
        write_private(tmp_path / "folder", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
