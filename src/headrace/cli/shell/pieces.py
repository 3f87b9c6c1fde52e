"""A text as the shell reads it: statements up to their `;`, and lines that begin with `\\`, commands of the shell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql.tokens import Kind, Token, tokens
from headrace.span import Span

COMMAND = "\\"
_FAREWELLS = ("exit", "quit")
_OPENED = ("'", '"', "`", "/*")
_PLACE = re.compile(r"line (\d+):(\d+)")


@dataclass(frozen=True)
class Piece:
    """A statement with its `;`, if there is one, or a command without its `\\`; `start` is its place in the text."""

    text: str
    start: int
    is_command: bool = False


def pieces(text: str) -> Iterator[Piece]:
    """All of them, in order. A statement of nothing is left out."""
    at = 0
    while at < len(text):
        for piece in _statements(text, at):
            yield piece
            if piece.is_command:  # its line may hold a quote that nobody closes: what follows is read anew
                at = piece.start + len(piece.text)
                break
        else:
            return


def _statements(text: str, at: int) -> Iterator[Piece]:
    """Up to and with the next command."""
    first: Token | None = None
    last = at
    for token in tokens(text[at:]):
        if first is None and token.text == COMMAND:
            line = re.compile(r"[^\n\r]*").match(text, at + token.span.end)
            yield Piece(line.group() if line else "", at + token.span.end, is_command=True)
            return
        is_end = _is_end(token)
        if is_end and first is not None:
            yield _piece(text, at, first, token)
        first, last = (None if is_end else first or token), token.span.end
    if first is not None:
        yield Piece(text[at + first.span.start : at + last], at + first.span.start)


def _piece(text: str, at: int, first: Token, end: Token) -> Piece:
    return Piece(text[at + first.span.start : at + end.span.end], at + first.span.start)


def _is_end(token: Token) -> bool:
    return token.kind is Kind.SYMBOL and token.value == ";"


def is_whole(text: str) -> bool:
    """Whether Enter sends it: nothing, a command, or statements that have ended. A quote that is open goes on."""
    if not text.strip() or text.lstrip().startswith(COMMAND) or is_farewell(text):
        return True
    read = list(tokens(text))
    if any(token.kind is Kind.BAD and token.text.startswith(_OPENED) for token in read):
        return False
    return not read or _is_end(read[-1])


def is_farewell(text: str) -> bool:
    """`exit` and `quit`, as in ksqlDB's shell."""
    return text.strip().rstrip(";").lower() in _FAREWELLS


# -- places ---------------------------------------------------------------------------------------------------------


def placed(error: HeadraceError, piece: Piece, text: str, name: str | None) -> HeadraceError:
    """The error with its place in the whole text, where the server has told one in the statement."""
    found = _PLACE.fullmatch(error.where or "")
    if found is None:
        return error
    span = _span(piece, text, int(found[1]), int(found[2]))
    if isinstance(error, StatementError):
        error.span = span
        return error.located(text, name)
    error.where = f"{name or 'line '}{':' if name else ''}{span.line}:{span.column}"
    return error


def _span(piece: Piece, text: str, line: int, column: int) -> Span:
    """Of the token that stands there."""
    lines = piece.text.splitlines(keepends=True)
    start = piece.start + sum(map(len, lines[: line - 1])) + column - 1
    before = text[:start].splitlines(keepends=True)
    if not before or before[-1].endswith(("\n", "\r")):
        before.append("")
    here = next(tokens(text[start:]), None)
    length = len(here.text) if here is not None and here.span.start == 0 else 1
    return Span(start, start + length, len(before), len(before[-1]) + 1)
