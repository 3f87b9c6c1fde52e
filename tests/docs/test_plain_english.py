"""Nothing that a user reads contains a phrase of the private English that the code base once had."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tools.reference import walk

from headrace.cli.root import COMMANDS
from tests.docs.pages import ALL_PAGES, ROOT, page_name

PHRASES = (
    "mend",
    "mends",
    "mended",
    "one's own",
    "vain",
    "what is there",
    "look after",
    "looks after",
    "looked after",
    "hang on",
    "hangs on",
    "be asked",
    "goes on",
    "beside",
    "anew",
    "aside",
    "whoever",
    "somebody",
    "everybody",
    "nobody",
    "weaknesses",
    "in company",
    "there yet",
    "sees to it",
    "made of",
    "taken up",
    "takes up",
    "stand still",
    "read on",
    "of before",
    "count no longer",
)
_FOUND = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.I)


def texts() -> Iterator[tuple[str, str]]:
    """The pages, and what `headrace --help` and `make` print."""
    for page in ALL_PAGES:
        if page.name != "roadmap.md":
            yield page_name(page), page.read_text()
    yield "headrace --help", "\n".join(COMMANDS.values())
    for path, command in walk():
        options = [getattr(option, "help", None) or "" for option in command.params]
        yield f"headrace {' '.join(path)} --help", "\n".join([command.help or "", *options])
    yield "make", "\n".join(re.findall(r"## (.*)", (ROOT / "Makefile").read_text()))


@pytest.mark.parametrize(("name", "text"), [pytest.param(name, text, id=name) for name, text in texts()])
def test_no_private_english(name: str, text: str) -> None:
    del name
    assert not [" ".join(line.split()) for line in text.splitlines() if _FOUND.search(line)]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_is_found(phrase: str) -> None:
    assert _FOUND.search(f"The query, {phrase}: until it stops.")
