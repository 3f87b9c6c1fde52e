"""How the shell splits input into statements, and where errors are in it."""

from __future__ import annotations

import pytest

from headrace.cli.shell.statement_splitter import is_complete, locate_error, split_input, word_command
from headrace.errors import ColumnNotFound, LogBusy


def cut(text: str) -> list[tuple[str, bool]]:
    found = list(split_input(text))
    assert all(text[piece.start :].startswith(piece.text) for piece in found)
    return [(piece.text, piece.is_command) for piece in found]


def test_input_is_split_into_statements_and_commands() -> None:
    text = "SELECT ';' -- ; no\nFROM x;;\n  \\d x\n\\set a 'it\nLIST TOPICS; -- done\nlast"
    assert cut(text) == [
        ("SELECT ';' -- ; no\nFROM x;", False),
        ("d x", True),
        ("set a 'it", True),
        ("LIST TOPICS;", False),
        ("last", False),
    ]


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing", "/* nothing */ ;"])
def test_blank_input_has_no_statements(text: str) -> None:
    assert cut(text) == []


def test_a_backslash_within_a_statement_starts_no_command() -> None:
    assert cut("SELECT\n\\d;") == [("SELECT\n\\d;", False)]


def test_many_statements_are_split_in_linear_time() -> None:
    assert len(cut("INSERT INTO x VALUES (1, 'a;b');\n" * 20_000)) == 20_000


@pytest.mark.parametrize("text", ["", "\\d", "  \\q", "LIST TOPICS;", "A; B; -- c", "exit", "QUIT"])
def test_enter_submits_complete_input(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", ["LIST TOPICS", "A; B", "SELECT 'a;", "SELECT `a;", "SELECT /* ;"])
def test_enter_continues_incomplete_input(text: str) -> None:
    assert not is_complete(text)


@pytest.mark.parametrize(("text", "command"), [(" exit; ", "q"), ("QUIT", "q"), ("help", "?"), ("exit now;", None)])
def test_some_commands_need_no_backslash(text: str, command: str | None) -> None:
    assert word_command(text) == command
    assert command is None or is_complete(text)


def test_error_positions_count_in_the_whole_text() -> None:
    text = "LIST TOPICS;\n\n  SELECT a,\n  nothing FROM x;\n"
    _, piece = split_input(text)
    error = locate_error(ColumnNotFound("no", where="line 2:3"), piece, text, "x.ksql")
    assert isinstance(error, ColumnNotFound)
    assert (error.where, error.excerpt) == ("x.ksql:4:3", "  nothing FROM x;\n  ^^^^^^^")
    assert locate_error(ColumnNotFound("no", where="line 1:8"), piece, text, None).where == "line 3:10"
    assert locate_error(LogBusy("no", where="line 1:1"), piece, text, "x.ksql").where == "x.ksql:3:3"
    assert locate_error(LogBusy("no", where="topic x"), piece, text, "x.ksql").where == "topic x"
