"""The pages of the documentation, and what they consist of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[cg]*/**/*.md")])
"""Pages whose examples run."""
ALL_PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("**/*.md")])

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
_INLINE = re.compile(r"(`+)(.+?)\1", re.S)
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.M)


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fenced(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each code block."""
    return _FENCE.findall(page.read_text())


def prose(page: Path) -> str:
    """The text without code blocks."""
    return _FENCE.sub("", page.read_text())


def inline_code(page: Path) -> list[str]:
    """The code within sentences, each on one line."""
    return [" ".join(text.split()) for _, text in _INLINE.findall(prose(page))]


def links(page: Path) -> Iterator[tuple[bool, str, str]]:
    """Each link within the repository: whether it is a picture, its path (empty: the page itself) and its anchor."""
    text = _INLINE.sub("", prose(page))
    for picture, target in _LINK.findall(text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield bool(picture), path, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    made: list[str] = []
    for heading in _HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        made.append(f"{anchor}-{made.count(anchor)}" if anchor in made else anchor)
    return set(made)


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## +(.+)$", page.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table_rows(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without their header lines."""
    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"\|( ?-+ ?\|)+", line)]
    rows: list[list[str]] = []
    for rule in rules:
        for line in lines[rule + 1 :]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return rows
