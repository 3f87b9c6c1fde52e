"""Which words could go on where the cursor is: by the word before it, by the sources that the statement names.

Words of the language and plain names are offered in small letters to who writes small ones; other names in backticks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from headrace.cli.shell.commands import COMMANDS
from headrace.cli.shell.names import Known
from headrace.cli.shell.outputs import OUTPUTS
from headrace.cli.shell.pieces import COMMAND, pieces
from headrace.lang.ksql.keywords import RESERVED, keywords
from headrace.lang.ksql.tokens import Kind, Token, tokens
from headrace.plan.answers.text import quoted
from headrace.plan.types import identifier_text

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BEGUN = re.compile(r"`[^`]*$|[A-Za-z0-9_@]*$")


@dataclass(frozen=True)
class Offer:
    """A word that replaces the last `length` characters, and what it is."""

    word: str
    kind: str
    length: int


def offers(before: str, known: Known, after: str = "") -> list[Offer]:
    """For the text before the cursor, and behind it: sources may be named there, as in `SELECT | FROM clicks`."""
    if before.lstrip().startswith(COMMAND):
        return _of_command(before.lstrip(), known)
    begun = _BEGUN.search(before)
    fragment = begun.group() if begun else ""
    written = _statement(before[: len(before) - len(fragment)])
    named = _named([*written, *_up_to_end(after)], known)
    return _matching(fragment, _candidates(written, named, known))


def _statement(text: str) -> list[Token]:
    """The tokens of the statement that has not ended yet."""
    rest = "" if not (found := list(pieces(text))) or found[-1].text.endswith(";") else found[-1].text
    return list(tokens(rest))


def _up_to_end(text: str) -> Iterator[Token]:
    return takewhile(lambda token: token.value != ";", tokens(text))


def _matching(fragment: str, candidates: Iterable[tuple[str, str]]) -> list[Offer]:
    plain = fragment.lstrip("`").upper()
    made = (
        Offer(_written(word, kind, fragment), kind, len(fragment))
        for word, kind in dict.fromkeys(candidates)
        if word.upper().startswith(plain) and not (kind == "keyword" and fragment.startswith("`"))
    )
    return list(made)


def _written(word: str, kind: str, fragment: str) -> str:
    if kind == "topic":  # its letters are as they are
        return word if _PLAIN.fullmatch(word) and not fragment.startswith("`") else identifier_text(word)
    name = word if kind == "keyword" else quoted(word, RESERVED)
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
_LISTED: Mapping[str, Callable[[Known], Iterable[str]]] = {
    "source": lambda known: sorted(known.sources),
    "topic": lambda known: known.topics,
    "function": lambda known: known.functions,
    "query": lambda known: known.queries,
}


def _candidates(
    written: Sequence[Token], named: Mapping[str, tuple[str, ...]], known: Known
) -> Iterator[tuple[str, str]]:
    """Words with their kinds, the likeliest first."""
    last = [token.value.upper() for token in written[-2:]]
    if last and (kind := _AFTER.get(last[-1]) or _dropped(last)):
        yield from ((name, kind) for name in _LISTED[kind](known))
        return
    if last and last[-1] == "." and len(written) > 1:
        yield from ((column, "column") for column in named.get(_plain(written[-2]), ()))
        return
    yield from ((column, "column") for columns in named.values() for column in columns)
    if written:
        yield from ((name, "function") for name in known.functions)
    yield from ((word, "keyword") for word in sorted(keywords()))


def _dropped(last: Sequence[str]) -> str | None:
    return "source" if len(last) == 2 and last[0] in ("DROP", "ALTER") and last[1] in ("STREAM", "TABLE") else None


def _named(written: Sequence[Token], known: Known) -> dict[str, tuple[str, ...]]:
    """The columns of the sources that the statement names, by their names and by what they are called in it."""
    found: dict[str, tuple[str, ...]] = {}
    words = [token for token in written if not (token.kind is Kind.WORD and token.value.upper() == "AS")]
    for one, following in pairwise([*words, None]):
        if one is None or (columns := known.sources.get(_plain(one))) is None:
            continue
        found[_plain(one)] = columns
        if following is not None and _is_name(following):
            found[_plain(following)] = columns
    return found


def _plain(token: Token) -> str:
    return token.value.upper() if token.kind is Kind.WORD else token.value


def _is_name(token: Token) -> bool:
    return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.value.upper() not in keywords())


# -- commands -------------------------------------------------------------------------------------------------------

_ARGUMENTS: Mapping[str, Callable[[Known], Iterable[tuple[str, str]]]] = {
    **dict.fromkeys(("d", "d+"), lambda known: ((name, "source") for name in sorted(known.sources))),
    "df": lambda known: ((name, "function") for name in known.functions),
    "o": lambda known: ((name, "keyword") for name in OUTPUTS),
}


def _of_command(line: str, known: Known) -> list[Offer]:
    name, space, rest = line[1:].partition(" ")
    if not space:
        return [Offer(word, "command", len(name)) for word in COMMANDS if word.startswith(name)]
    arguments = _ARGUMENTS.get(name)
    return _matching(rest.strip(), arguments(known)) if arguments and " " not in rest.strip() else []
