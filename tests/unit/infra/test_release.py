"""`make release` refuses a checkout that is not ready and says why. SBOM and checksums depend only on the content."""

import hashlib
import json
import subprocess
from datetime import UTC, datetime

import pytest

from infra.release import Project, next_steps, problems, write_checksums
from infra.sbom import reproducible

FILES = {
    "pyproject.toml": '[project]\nname = "sluice-sharing"\nversion = "1.2.0"\n',
    "uv.lock": '[[package]]\nname = "sluice-sharing"\nversion = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 - 2026-11-18\n\n- A change.\n\n## 1.1.0\n",
}


class Checkout:
    def __init__(self, root):
        self.root = root
        self.git("init", "--quiet")
        for name, text in FILES.items():
            (root / name).write_text(text)
        self.commit()

    def git(self, *arguments):
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "A change")

    def change(self, name, old, new):
        path = self.root / name
        path.write_text(path.read_text().replace(old, new))
        self.commit()

    def problems(self):
        return problems(Project.read(self.root))


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_clean_checkout_with_a_changelog_section_can_be_released(checkout):
    assert checkout.problems() == []


@pytest.mark.parametrize("heading", ["## 1.2.0", "## [1.2.0]", "## [1.2.0] - 2026-11-18"])
def test_the_changelog_heading_may_have_brackets_and_a_date(checkout, heading):
    checkout.change("CHANGELOG.md", "## 1.2.0 - 2026-11-18", heading)
    assert checkout.problems() == []


def test_uncommitted_changes_are_refused_and_listed(checkout):
    (checkout.root / "pyproject.toml").write_text(FILES["pyproject.toml"] + "\n")
    (checkout.root / "new.txt").touch()
    (problem,) = checkout.problems()
    assert problem == "The working tree has uncommitted changes: pyproject.toml, new.txt. Commit or stash them."


def test_a_long_list_of_uncommitted_changes_is_shortened(checkout):
    for number in range(8):
        (checkout.root / f"{number}.txt").touch()
    (problem,) = checkout.problems()
    assert "0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 3 more." in problem


@pytest.mark.parametrize("heading", ["## Unreleased", "## 1.2.0rc1", "## 11.2.0", "## 1x2.0", "### 1.2.0"])
def test_a_version_without_a_changelog_section_is_refused(checkout, heading):
    checkout.change("CHANGELOG.md", "## 1.2.0 - 2026-11-18", heading)
    (problem,) = checkout.problems()
    assert problem == "CHANGELOG.md has no section for 1.2.0. Add one: `## 1.2.0 - YYYY-MM-DD`."


def test_a_lock_file_with_another_version_is_refused(checkout):
    checkout.change("uv.lock", "1.2.0", "1.1.0")
    (problem,) = checkout.problems()
    assert problem == "uv.lock does not have sluice-sharing 1.2.0. Run `uv lock` and commit the result."


@pytest.mark.parametrize("options", [(), ("--annotate", "--message", "Sluice 1.2.0")])
def test_a_commit_that_already_has_its_tag_can_be_released(checkout, options):
    checkout.git("tag", *options, "v1.2.0")
    assert checkout.problems() == []


def test_a_tag_on_another_commit_is_refused(checkout):
    checkout.git("tag", "v1.2.0")
    checkout.commit()
    (problem,) = checkout.problems()
    assert problem.startswith("The tag v1.2.0 exists and points to another commit.")


def test_a_commit_with_the_tag_of_another_version_is_refused(checkout):
    checkout.git("tag", "v1.1.0")
    (problem,) = checkout.problems()
    assert problem.startswith("This commit has the tag v1.1.0, but pyproject.toml says 1.2.0.")


def test_a_tag_that_is_not_a_version_is_ignored(checkout):
    checkout.git("tag", "vendor-update")
    assert checkout.problems() == []


def test_all_problems_are_reported_at_once(checkout):
    checkout.change("pyproject.toml", "1.2.0", "1.3.0")
    (checkout.root / "new.txt").touch()
    assert len(checkout.problems()) == 3


def test_the_next_step_is_the_tag_unless_it_exists(checkout):
    project, folder = Project.read(checkout.root), checkout.root / "dist"
    assert "git tag -a v1.2.0" in next_steps(project, folder)
    checkout.git("tag", "v1.2.0")
    assert "git tag" not in next_steps(project, folder)


def test_checksums_have_the_format_of_sha256sum(tmp_path):
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.zip").write_bytes(b"package")
    write_checksums(tmp_path)
    assert (tmp_path / "SHA256SUMS").read_text() == (
        f"{hashlib.sha256(b'package').hexdigest()}  a.zip\n{hashlib.sha256(b'wheel').hexdigest()}  b.whl\n"
    )


def exported(serial, timestamp, component="1.0"):
    return {
        "bomFormat": "CycloneDX",
        "serialNumber": serial,
        "metadata": {"timestamp": timestamp, "tools": []},
        "components": [{"name": "orjson", "version": component}],
    }


def test_two_exports_of_one_commit_give_the_same_sbom():
    created = datetime(2026, 11, 18, 7, 30, tzinfo=UTC)
    first = reproducible(exported("urn:uuid:1", "2026-11-18T08:00:00Z"), created)
    second = reproducible(exported("urn:uuid:2", "2026-11-19T08:00:00Z"), created)
    assert json.dumps(first) == json.dumps(second)
    assert first["metadata"] == {"timestamp": "2026-11-18T07:30:00Z", "tools": []}
    other = reproducible(exported("urn:uuid:1", "2026-11-18T08:00:00Z", component="1.1"), created)
    assert other["serialNumber"] != first["serialNumber"]
