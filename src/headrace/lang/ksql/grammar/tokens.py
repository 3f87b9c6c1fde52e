"""Splits KSQL text into tokens with positions. Nothing is rejected here: an invalid token carries the reason.

Whether a word is a keyword or a name is decided by the parser, which knows what is allowed at its position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from headrace.span import Span


class Kind(StrEnum):
    """`WORD` is a keyword or a name (digits may come first); all others but `SYMBOL` are named as in the grammar."""

    WORD = "WORD"
    QUOTED = "QUOTED"
    TEXT = "TEXT"
    INTEGER = "INTEGER"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    SYMBOL = "SYMBOL"
    VARIABLE = "VARIABLE"
    BAD = "BAD"


@dataclass(frozen=True, slots=True)
class Token:
    """`value` is the meaning (without quotes), `text` the source text. `problem` says why it is invalid."""

    kind: Kind
    value: str
    text: str
    span: Span
    problem: str | None = None
    fix: str | None = None


# Possessive repetition, and comments that run to the end: an unclosed token must not be scanned repeatedly.
_TOKEN = re.compile(
    r"""
      (?P<space>   \s++ | --[^\n\r]*+ | /\*(?s:.*?)\*/ )
    | (?P<TEXT>    '(?:[^']++|'')*+' )
    | (?P<QUOTED>  `(?:[^`]++|``)*+` | "(?:[^"]++|"")*+" )
    | (?P<open>    ['`"][^\n\r;]*+ | /\*(?s:.*+) )
    | (?P<VARIABLE>\$\{[A-Za-z0-9_]+\} )
    | (?P<DOUBLE>  (?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)[eE][+-]?[0-9]++(?![A-Za-z_@]) )
    | (?P<DECIMAL> [0-9]++\.[0-9]*+ | \.[0-9]++ )
    | (?P<long>    [0-9]{1000}[0-9]*+ )  # more than Python likes to read
    | (?P<INTEGER> [0-9]++(?![A-Za-z_@]) )
    | (?P<WORD>    [A-Za-z0-9_][A-Za-z0-9_@]*+ )
    | (?P<SYMBOL>  -> | => | := | <> | != | <= | >= | \|\| | [-+*/%=<>()\[\],.;] )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SYNONYMS = {"!=": "<>"}
_PROBLEMS = {
    "open": ("{} is not closed", "close it"),
    "long": ("Invalid numeric literal: it has too many digits", "write an integer between -2^63 and 2^63-1"),
    "other": ("unexpected character {}", "remove it, or put the name that contains it in backticks"),
}
_OPENED = {"'": "a string", "`": "a quoted name", '"': "a quoted name", "/": "a comment"}


def tokenize(text: str) -> Iterator[Token]:
    """Yields all tokens in order, without comments and white space."""
    starts = _line_starts(text)
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield _token(match, _span(starts, match.start(), match.end()))


def end_of(text: str, token: Token) -> Span:
    """Returns the position directly after a token."""
    return _span(_line_starts(text), token.span.end, token.span.end)


def _token(match: re.Match[str], span: Span) -> Token:
    group, text = match.lastgroup or "", match.group()
    if group in _PROBLEMS:
        problem, fix = _PROBLEMS[group]
        named = _OPENED[text[0]] if group == "open" else f'"{text}"'
        return Token(Kind.BAD, text, text, span, problem.format(named), fix.format(text))
    if group in (Kind.TEXT, Kind.QUOTED):
        quote = text[0]
        return Token(Kind(group), text[1:-1].replace(quote * 2, quote), text, span)
    return Token(Kind(group), _SYNONYMS.get(text, text), text, span)


def _line_starts(text: str) -> list[int]:
    # Lines are split in the same way as in `span.underlined`.
    lengths = [len(line) for line in text.splitlines(keepends=True)]
    return [0, *accumulate(lengths[:-1])]


def _span(starts: list[int], start: int, end: int) -> Span:
    line = bisect_right(starts, start)
    return Span(start, end, line, start - starts[line - 1] + 1)
