"""What the documentation names exists: commands and flags, `make` targets, files, settings, codes, API routes.

The roadmap is left out: it also names what was and what will be.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headrace import cli
from headrace.serve.api.app import PREFIX, ROUTES
from headrace.settings.sections import declared_settings
from tests.docs.pages import ALL_PAGES, ROOT, fenced, inline_code, page_name

PAGES = [page for page in ALL_PAGES if page != ROOT / "docs" / "roadmap.md"]
PLANNED = {"connectors/", "lang/siddhi/", "lang/flume/", "eventstore/"}
"""Folders that the architecture announces."""

_AFTER_COMMAND = {"|", ">", ">>", "<", "&&", ";", "&"}


def command_lines(page: Path, program: str) -> Iterator[list[str]]:
    """The words of each command line that begins with the program, in code blocks and in sentences."""
    shell = [text for kind, text in fenced(page) if kind in ("", "sh", "console")]
    lines = [line.removeprefix("$ ").removeprefix(".venv/bin/") for text in shell for line in text.splitlines()]
    for line in [*lines, *inline_code(page)]:
        if line.startswith(f"{program} "):
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # an apostrophe: not a command line
                continue
            end = next((i for i, word in enumerate(words) if word in _AFTER_COMMAND), len(words))
            yield words[1:end]


def all_lines(program: str) -> list[Any]:
    return [
        pytest.param(words, id=f"{page_name(page)}: {' '.join(words)}")
        for page in PAGES
        for words in command_lines(page, program)
    ]


# -- headrace -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", all_lines("headrace"))
def test_the_command_and_its_flags_exist(words: list[str]) -> None:
    rest = list(words)
    command: Any = get_command(cli.app)
    known = flags(command)
    while rest:
        word = rest.pop(0)
        if is_flag(word):
            assert word.partition("=")[0] in known
        elif hasattr(command, "get_command") and word not in values(words, known):
            alternatives = [command.get_command(None, part) for part in word.split("/")]
            assert None not in alternatives, f"{word} is no command"
            command = alternatives[0]
            known = known | flags(command)


def flags(command: Any) -> frozenset[str]:
    return frozenset(
        {"-h", "--help", *(name for option in command.params for name in (*option.opts, *option.secondary_opts))}
    )


def is_flag(word: str) -> bool:
    return re.match(r"--?[a-zA-Z]", word) is not None


def values(words: list[str], known: frozenset[str]) -> set[str]:
    """The words that follow a flag: they may be its value."""
    return {value for flag, value in pairwise(words) if flag in known and flag.startswith("--")}


# -- make -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [words for words in all_lines("make") if words.values[0]])
def test_the_target_and_its_variables_exist(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        if is_variable:
            assert f"$({name})" in makefile or f"$(or $({name})" in makefile
        else:
            assert re.search(rf"^([a-z-]+ )*{re.escape(word)}( [a-z-]+)*:", makefile, re.M), f"{word} is no target"


def test_modules_that_are_run_exist() -> None:
    lines = [words for page in PAGES for words in command_lines(page, "python")]
    modules = {words[1] for words in lines if words[0] == "-m"}
    assert "bench" in modules
    assert not [module for module in modules if importlib.util.find_spec(module) is None]


# -- files ----------------------------------------------------------------------------------------------------------


@cache
def repository() -> frozenset[str]:
    """The paths of all files and folders, each with a slash before it, folders with one behind."""
    found: set[str] = set()
    for top in ("src", "tests", "docs", "bench", "tools", "examples", "packaging"):
        for path in (ROOT / top, *(ROOT / top).rglob("*")):
            found.add(f"/{path.relative_to(ROOT).as_posix()}{'/' if path.is_dir() else ''}")
    return frozenset(found)


def named_files(page: Path) -> Iterator[str]:
    """Paths of sources and tests in sentences; in the architecture also those in its drawings of the tree."""
    for code in inline_code(page):
        if re.fullmatch(
            r"[\w.-]+(/[\w.-]+)*/[\w-]+(\.py|\.lark|\.toml)|(tests|src|docs|bench|tools)(/[\w.-]+)+/?", code
        ):
            yield code
    if page.name in ("ARCHITECTURE.md", "contributing.md"):
        yield from (code for code in inline_code(page) if re.fullmatch(r"(\w+/)+|\w+\.(py|lark)", code))
    if page.name == "ARCHITECTURE.md":
        drawings = "\n".join(text for _, text in fenced(page))
        yield from re.findall(r"(?<![\w/])(?:\w+/)+(?:\w+\.py)?|\b\w+\.py\b", drawings)
    yield from re.findall(r"(?<=\s)tests/[\w./-]+", "\n".join(text for _, text in fenced(page)))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_that_are_named_exist(page: Path) -> None:
    generated = ("bench/results", "build", "docs/reference")
    missing = {
        name
        for name in set(named_files(page)) - PLANNED
        if not name.startswith(generated) and not any(path.endswith((f"/{name}", f"/{name}/")) for path in repository())
    }
    assert not missing


def test_planned_folders_do_not_exist_yet() -> None:
    assert not [name for name in PLANNED if f"/src/headrace/{name}" in repository()]


# -- settings, codes, routes ----------------------------------------------------------------------------------------


@cache
def settings() -> frozenset[str]:
    return frozenset(spec.key for spec in declared_settings())


@cache
def source_text() -> str:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").glob("*")]
    return "\n".join(path.read_text() for path in [*files, ROOT / "Makefile"] if path.is_file())


def test_environment_variables_exist() -> None:
    variables = {f"HEADRACE_{name.upper().replace('.', '_')}" for name in settings()}
    used = {name for page in PAGES for name in re.findall(r"\bHEADRACE_[A-Z_]+\b", page.read_text())}
    assert len(used) > 3
    assert not [
        name for name in used - variables if f'"{name}"' not in source_text() and f"({name})" not in source_text()
    ]


def flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        yield from flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]


def test_settings_in_files_exist() -> None:
    documents = [tomllib.loads(text) for page in PAGES for kind, text in fenced(page) if kind == "toml"]
    assert documents
    assert not [name for document in documents for name in flat(document) if name not in settings()]


def test_settings_in_sentences_exist() -> None:
    names = {
        match[1]
        for page in PAGES
        for code in inline_code(page)
        if (match := re.fullmatch(r'([a-z_.]+) = "?\w+"?', code))
    }
    known = settings() | {name.rpartition(".")[2] for name in settings()}
    assert len(names) > 3
    assert not names - known


def test_codes_exist() -> None:
    """Of errors and of dead letters: in tables with a column `code`."""
    codes = {code for page in PAGES for code in tabled_codes(page)}
    assert len(codes) > 10
    assert not [code for code in codes if f'"{code}"' not in source_text()]


def tabled_codes(page: Path) -> Iterator[str]:
    for header, body in re.findall(r"^(\|.*\|)\n\|[-| ]+\|\n((?:\|.*\n)+)", page.read_text(), re.M):
        columns = [cell.strip() for cell in header.strip("|").split("|")]
        if "code" in columns:
            for line in body.splitlines():
                cell = re.split(r"(?<!\\)\|", line.strip("|"))[columns.index("code")]
                yield from re.findall(r"`([a-z]+(?:-[a-z]+)+)`", cell)


def test_routes_of_the_api_exist() -> None:
    routes = [(route.method, re.sub(r"\{\w+\}", "[^/]+", f"{PREFIX}{route.path}")) for route in ROUTES]
    routes.append(("GET", f"{PREFIX}/openapi.json"))
    named = {
        (match[1], match[2])
        for page in PAGES
        for code in inline_code(page)
        if (match := re.match(rf"(GET|POST|PUT|PATCH|DELETE) ({PREFIX}/[^\s?]*)", code))
    }
    assert len(named) > 10
    assert not [
        f"{method} {path}"
        for method, path in named
        if not any(method == known and re.fullmatch(pattern, path) for known, pattern in routes)
    ]
