"""Completions at the cursor: by the word before it, and by the sources that the statement names.

Keywords and plain names are offered in lower case if the user types lower case; other names are in backticks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from headrace.cli.shell.catalog_cache import CatalogNames
from headrace.cli.shell.meta_commands import COMMANDS
from headrace.cli.shell.output_formats import OUTPUTS
from headrace.cli.shell.statement_splitter import COMMAND, split_input
from headrace.lang.ksql.grammar.keywords import RESERVED, keywords
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize
from headrace.lang.listing_text import quote_identifier
from headrace.plan.types import identifier_text

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FRAGMENT = re.compile(r"`[^`]*$|[A-Za-z0-9_@]*$")


@dataclass(frozen=True)
class Completion:
    """A word that replaces the last `length` characters, and its kind."""

    word: str
    kind: str
    length: int


def complete(before: str, known: CatalogNames, after: str = "") -> list[Completion]:
    """Completions for the text before the cursor. The text after it may name sources, as in `SELECT | FROM clicks`."""
    if before.lstrip().startswith(COMMAND):
        return _of_command(before.lstrip(), known)
    match = _FRAGMENT.search(before)
    fragment = match.group() if match else ""
    tokens = _statement(before[: len(before) - len(fragment)])
    sources = _named_sources([*tokens, *_up_to_end(after)], known)
    return _matching(fragment, _candidates(tokens, sources, known))


def _statement(text: str) -> list[Token]:
    """The tokens of the statement that is not terminated yet."""
    rest = "" if not (inputs := list(split_input(text))) or inputs[-1].text.endswith(";") else inputs[-1].text
    return list(tokenize(rest))


def _up_to_end(text: str) -> Iterator[Token]:
    return takewhile(lambda token: token.value != ";", tokenize(text))


def _matching(fragment: str, candidates: Iterable[tuple[str, str]]) -> list[Completion]:
    plain = fragment.lstrip("`").upper()
    completions = (
        Completion(_inserted_text(word, kind, fragment), kind, len(fragment))
        for word, kind in dict.fromkeys(candidates)
        if word.upper().startswith(plain) and not (kind == "keyword" and fragment.startswith("`"))
    )
    return list(completions)


def _inserted_text(word: str, kind: str, fragment: str) -> str:
    if kind == "topic":  # case-sensitive
        return word if _PLAIN.fullmatch(word) and not fragment.startswith("`") else identifier_text(word)
    name = word if kind == "keyword" else quote_identifier(word, RESERVED)
    if fragment.startswith("`"):
        return name if name.startswith("`") else f"`{name}`"
    return name.lower() if fragment.islower() and not name.startswith("`") else name


# -- statements -----------------------------------------------------------------------------------------------------

_AFTER: Mapping[str, str] = {
    **dict.fromkeys(("FROM", "JOIN", "INTO", "DESCRIBE"), "source"),
    "PRINT": "topic",
    "FUNCTION": "function",
    **dict.fromkeys(("TERMINATE", "PAUSE", "RESUME", "EXPLAIN"), "query"),
}
_LISTED: Mapping[str, Callable[[CatalogNames], Iterable[str]]] = {
    "source": lambda known: sorted(known.sources),
    "topic": lambda known: known.topics,
    "function": lambda known: known.functions,
    "query": lambda known: known.queries,
}


def _candidates(
    tokens: Sequence[Token], sources: Mapping[str, tuple[str, ...]], known: CatalogNames
) -> Iterator[tuple[str, str]]:
    """Words with their kinds, the likeliest first."""
    last = [token.value.upper() for token in tokens[-2:]]
    if last and (kind := _AFTER.get(last[-1]) or _dropped(last)):
        yield from ((name, kind) for name in _LISTED[kind](known))
        return
    if last and last[-1] == "." and len(tokens) > 1:
        yield from ((column, "column") for column in sources.get(_plain(tokens[-2]), ()))
        return
    yield from ((column, "column") for columns in sources.values() for column in columns)
    if tokens:
        yield from ((name, "function") for name in known.functions)
    yield from ((word, "keyword") for word in sorted(keywords()))


def _dropped(last: Sequence[str]) -> str | None:
    return "source" if len(last) == 2 and last[0] in ("DROP", "ALTER") and last[1] in ("STREAM", "TABLE") else None


def _named_sources(tokens: Sequence[Token], known: CatalogNames) -> dict[str, tuple[str, ...]]:
    """The columns of the sources that the statement names, by source name and by alias."""
    columns_by_name: dict[str, tuple[str, ...]] = {}
    words = [token for token in tokens if not (token.kind is Kind.WORD and token.value.upper() == "AS")]
    for one, following in pairwise([*words, None]):
        if one is None or (columns := known.sources.get(_plain(one))) is None:
            continue
        columns_by_name[_plain(one)] = columns
        if following is not None and _is_name(following):
            columns_by_name[_plain(following)] = columns
    return columns_by_name


def _plain(token: Token) -> str:
    return token.value.upper() if token.kind is Kind.WORD else token.value


def _is_name(token: Token) -> bool:
    return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.value.upper() not in keywords())


# -- commands -------------------------------------------------------------------------------------------------------

_ARGUMENTS: Mapping[str, Callable[[CatalogNames], Iterable[tuple[str, str]]]] = {
    **dict.fromkeys(("d", "d+"), lambda known: ((name, "source") for name in sorted(known.sources))),
    "df": lambda known: ((name, "function") for name in known.functions),
    "o": lambda known: ((name, "keyword") for name in OUTPUTS),
}


def _of_command(line: str, known: CatalogNames) -> list[Completion]:
    name, space, rest = line[1:].partition(" ")
    if not space:
        return [Completion(word, "command", len(name)) for word in COMMANDS if word.startswith(name)]
    arguments = _ARGUMENTS.get(name)
    return _matching(rest.strip(), arguments(known)) if arguments and " " not in rest.strip() else []
