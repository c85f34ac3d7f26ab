"""The project's Markdown files, split into the parts that tests check: prose, links, anchors and snippets."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^(?P<indent> *)(`{3,}|~{3,}) *(?P<language>[\w+-]*)")
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
SNIPPET = re.compile(r'^--8<-- "(?P<path>[^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    language: str
    text: str


@dataclass(frozen=True)
class Document:
    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def _parts(self) -> tuple[list[str], list[Snippet]]:
        """Returns the lines outside fenced blocks, and the fenced blocks."""
        prose: list[str] = []
        snippets: list[Snippet] = []
        fence: re.Match[str] | None = None
        block: list[str] = []
        for line in self.text.splitlines():
            found = FENCE.match(line)
            if fence is None and found:
                fence, block = found, []
            elif fence is not None and line.strip() == fence[2]:
                snippets.append(Snippet(fence["language"], "\n".join(block)))
                fence = None
            elif fence is not None:
                block.append(line.removeprefix(fence["indent"]))
            else:
                prose.append(line)
        return prose, snippets

    @property
    def prose(self) -> list[str]:
        return self._parts[0]

    @property
    def snippets(self) -> list[Snippet]:
        return self._parts[1]

    @property
    def links(self) -> list[str]:
        return [found["target"] for found in LINK.finditer("\n".join(self.prose))]

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of the headings, which are the same on GitHub and on the site."""
        included = "\n".join((ROOT / found["path"]).read_text() for found in SNIPPET.finditer(self.text))
        headings = re.findall(r"^#+ (.+)$", "\n".join([*self.prose, included]), re.MULTILINE)
        return {_slug(heading) for heading in headings}


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def documents() -> list[Document]:
    """Returns every Markdown file of the project, except build output."""
    folders = (ROOT / name for name in ("bench", "core", "docs", "events", "infra", "tests", ".github"))
    nested = (path for folder in folders for path in folder.rglob("*.md"))
    found = [*ROOT.glob("*.md"), *nested]
    return [Document(path) for path in sorted(found) if not {".pytest_cache", ".aws-sam"} & set(path.parts)]
