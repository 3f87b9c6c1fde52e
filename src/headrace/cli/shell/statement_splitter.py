"""Splits the shell's input into statements, each up to its `;`, and commands: lines that begin with `\\`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize
from headrace.span import Span

COMMAND = "\\"
_WORDS = {"help": "?", "exit": "q", "quit": "q"}  # without a backslash, as in ksqlDB's shell
_OPENED = ("'", '"', "`", "/*")
_PLACE = re.compile(r"line (\d+):(\d+)")


@dataclass(frozen=True)
class ShellInput:
    """A statement with its `;`, if there is one, or a command without its `\\`; `start` is its position in the text."""

    text: str
    start: int
    is_command: bool = False


def split_input(text: str) -> Iterator[ShellInput]:
    """All statements and commands, in order. Empty statements are skipped."""
    at = 0
    while at < len(text):
        for piece in _statements(text, at):
            yield piece
            if piece.is_command:  # its line may have an unclosed quote: tokenize again after it
                at = piece.start + len(piece.text)
                break
        else:
            return


def _statements(text: str, at: int) -> Iterator[ShellInput]:
    """The statements up to the next command, and that command."""
    first: Token | None = None
    last = at
    for token in tokenize(text[at:]):
        if first is None and token.text == COMMAND:
            line = re.compile(r"[^\n\r]*").match(text, at + token.span.end)
            yield ShellInput(line.group() if line else "", at + token.span.end, is_command=True)
            return
        is_end = _is_end(token)
        if is_end and first is not None:
            yield _piece(text, at, first, token)
        first, last = (None if is_end else first or token), token.span.end
    if first is not None:
        yield ShellInput(text[at + first.span.start : at + last], at + first.span.start)


def _piece(text: str, at: int, first: Token, end: Token) -> ShellInput:
    return ShellInput(text[at + first.span.start : at + end.span.end], at + first.span.start)


def _is_end(token: Token) -> bool:
    return token.kind is Kind.SYMBOL and token.value == ";"


def is_complete(text: str) -> bool:
    """Whether Enter submits the text: it is empty, a command, or terminated statements. An open quote continues."""
    if not text.strip() or text.lstrip().startswith(COMMAND) or word_command(text):
        return True
    read = list(tokenize(text))
    if any(token.kind is Kind.BAD and token.text.startswith(_OPENED) for token in read):
        return False
    return not read or _is_end(read[-1])


def word_command(text: str) -> str | None:
    """The command that `help`, `exit` or `quit` stands for, if the text is only that word, with or without a `;`."""
    return _WORDS.get(text.strip().rstrip(";").rstrip().lower())


# -- locations ------------------------------------------------------------------------------------------------------


def locate_error(error: HeadraceError, piece: ShellInput, text: str, name: str | None) -> HeadraceError:
    """The error with its location in the whole text, if the server reported one within the statement."""
    match = _PLACE.fullmatch(error.where or "")
    if match is None:
        return error
    span = _span(piece, text, int(match[1]), int(match[2]))
    if isinstance(error, StatementError):
        error.span = span
        return error.located(text, name)
    error.where = f"{name or 'line '}{':' if name else ''}{span.line}:{span.column}"
    return error


def _span(piece: ShellInput, text: str, line: int, column: int) -> Span:
    """The span of the token at that position."""
    lines = piece.text.splitlines(keepends=True)
    start = piece.start + sum(map(len, lines[: line - 1])) + column - 1
    before = text[:start].splitlines(keepends=True)
    if not before or before[-1].endswith(("\n", "\r")):
        before.append("")
    token = next(tokenize(text[start:]), None)
    length = len(token.text) if token is not None and token.span.start == 0 else 1
    return Span(start, start + length, len(before), len(before[-1]) + 1)
