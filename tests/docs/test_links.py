"""Links lead to an existing file, heading or picture, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ALL_PAGES, ROOT, anchors, inline_code, links, page_name


def target(page: Path, path: str) -> Path:
    return (page.parent / path).resolve() if path else page


def test_every_link_leads_to_a_file() -> None:
    found = [(page, path) for page in ALL_PAGES for _, path, _ in links(page)]
    assert len(found) > 200
    assert not [f"{page_name(page)}: {path}" for page, path in found if not target(page, path).exists()]


def test_every_anchor_is_a_heading() -> None:
    found = [(page, path, anchor) for page in ALL_PAGES for _, path, anchor in links(page) if anchor]
    assert len(found) > 50
    headings = {page: anchors(page) for page in {target(page, path) for page, path, _ in found}}
    assert not [
        f"{page_name(page)}: {path}#{anchor}"
        for page, path, anchor in found
        if anchor not in headings[target(page, path)]
    ]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page.is_dir():
            todo += page.glob("*.md")
        elif page.suffix == ".md" and page not in reached:
            reached.add(page)
            todo += [target(page, path) for _, path, _ in links(page)]
    assert not [page_name(page) for page in ALL_PAGES if page not in reached]


def test_test_files_that_a_page_names_exist() -> None:
    named = [
        (page, text) for page in ALL_PAGES for text in inline_code(page) if re.fullmatch(r"[\w/]+/test_\w+\.py", text)
    ]
    assert len(named) > 40
    assert not [
        f"{page_name(page)}: {text}"
        for page, text in named
        if not (ROOT / text).exists() and not (ROOT / "tests" / text).exists()
    ]
