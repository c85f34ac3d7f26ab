"""The documentation matches the project: links, make targets, routes, errors, snippets and line lengths."""

import ast
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from cli.serve.routes import ANY, read_routes
from core import errors
from tests.unit.docs.markdown import LINK, ROOT, Document, documents

DOCUMENTS = documents()
GENERATED = "docs/compatibility.md"
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)\b")
MAX_LINE = 120
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=str)
README = Document(ROOT / "README.md")


@every_document
def test_links_lead_to_files_and_headings_that_exist(document: Document) -> None:
    for link in document.links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.path.parent / path).resolve() if path else document.path
        assert target.exists(), f"{link} does not exist"
        if anchor:
            assert anchor in Document(target).anchors, f"{link} has no such heading"


@every_document
def test_pages_of_the_site_link_only_to_pages_of_the_site(document: Document) -> None:
    if not document.path.is_relative_to(ROOT / "docs"):
        return
    for link in document.links:
        if not re.match(r"[a-z]+:|#", link):
            target = (document.path.parent / link.partition("#")[0]).resolve()
            assert target.is_relative_to(ROOT / "docs"), f"{link} is not part of the site"


@every_document
def test_make_targets_exist(document: Document) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = [*re.findall(r"`([^`]+)`", "\n".join(document.prose)), *(snippet.text for snippet in document.snippets)]
    named = {target for text in code for target in MAKE.findall(text)} - {"bench-"}  # `make bench-NAME`
    assert named <= targets


def test_the_compatibility_page_begins_with_the_text_of_its_generator() -> None:
    from tests.golden.compatibility import DOCUMENT, INTRODUCTION  # imports a server

    assert DOCUMENT.read_text().startswith(f"{INTRODUCTION}\n## ")


@every_document
def test_lines_wrap_at_120_characters(document: Document) -> None:
    if str(document) == GENERATED:
        return
    long = [line for line in document.prose if len(line) > MAX_LINE and not _may_be_long(line)]
    assert not long


def _may_be_long(line: str) -> bool:
    """Tables, links and URLs do not wrap."""
    return line.lstrip().startswith("|") or max(map(len, LINK.sub("", line).split()), default=0) > MAX_LINE // 2


@every_document
def test_python_snippets_parse(document: Document) -> None:
    for snippet in document.snippets:
        if snippet.language == "python":
            ast.parse(snippet.text)


@every_document
def test_shell_snippets_parse(document: Document) -> None:
    shell = shutil.which("bash")
    assert shell
    for snippet in document.snippets:
        if snippet.language in {"bash", "sh", "shell"}:
            checked = subprocess.run([shell, "-n"], input=snippet.text, text=True, capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr


@every_document
def test_yaml_snippets_parse(document: Document) -> None:
    for snippet in document.snippets:
        if snippet.language == "yaml":
            yaml.safe_load(snippet.text)


def test_the_readme_is_short_and_begins_with_the_demo_and_the_tests() -> None:
    assert len(README.text.splitlines()) < 150
    commands = [snippet.text for snippet in README.snippets if snippet.language == "bash"]
    assert commands[:2] == ["make demo", "make test"]


def test_every_page_except_decision_records_is_in_the_navigation_of_the_site() -> None:
    configuration = tomllib.loads((ROOT / "zensical.toml").read_text())
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/0")}
    assert set(_pages(configuration["project"]["nav"])) == pages - decisions


def _pages(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(entries, list) or hasattr(entries, "__iter__")
    return [page for entry in entries for page in _pages(entry)]


def test_troubleshooting_has_a_section_for_each_error() -> None:
    headings = {line for line in Document(ROOT / "docs/troubleshooting.md").prose if line.startswith("## ")}
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert {f"## {error.status} {error.code}" for error in classes} <= headings


def test_the_api_page_lists_the_routes_of_the_template() -> None:
    page = (ROOT / "docs/api.md").read_text()
    documented = set(re.findall(r"^\| ([A-Z]+) \| `([^`]+)`", page, re.MULTILINE))
    assert documented == {(route.method, route.resource) for route in read_routes() if route.method != ANY}


def test_decision_records_fit_on_one_screen_and_are_listed() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    for path in sorted((ROOT / "docs/decisions").glob("0*.md")):
        assert path.name in listed
        assert len(path.read_text().splitlines()) <= 60, path.name
