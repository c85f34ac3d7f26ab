"""Files with secrets."""

import stat

import pytest

from cli.common.errors import CommandError
from cli.common.private_file import write_private


def test_only_the_owner_can_read_a_file_even_if_it_replaces_another(tmp_path):
    path = tmp_path / "profile.share"
    path.write_text("readable by others")
    path.chmod(0o644)
    write_private(path, "secret")
    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_write_leaves_no_file_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CommandError, match="cannot be written: Is a directory"):
        write_private(tmp_path / "folder", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
