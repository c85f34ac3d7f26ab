"""The guides lead to one catalog: that of the stack."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def section(guide: str, title: str) -> str:
    _, _, rest = (DOCS / guide).read_text().partition(f"## {title}\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize(("guide", "title"), [("deploy.md", "Share a table"), ("provider.md", "In your account")])
def test_a_guide_uses_the_catalog_of_the_stack_and_creates_no_second_one(guide, title):
    commands = re.findall(r"```bash\n(.*?)```", section(guide, title), re.DOTALL)[0]
    assert "export SLUICE_CATALOG_TABLE=" in commands
    assert not re.search("^sluice init", commands, re.MULTILINE)


def test_a_catalog_that_was_created_without_a_stack_becomes_that_of_the_stack():
    assert "ExistingCatalogTable=sluice-catalog" in section("provider.md", "In your account")
