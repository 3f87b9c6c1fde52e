"""Rows in columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rich.cells import cell_len

from headrace.cli.shell.text_table import TextTable, cell_text, fit_widths, vertical_row

NAMES, TYPES = ("ID", "PAGE"), ("BIGINT", "STRING")


def lines(*rows: list[Any], width: int | None = None, more: bool = False) -> list[str]:
    grid = TextTable(NAMES, TYPES, rows, width=width, more=more)
    return [*grid.head(), *(line for row in rows for line in grid.row(row))]


def test_columns_are_as_wide_as_what_is_known() -> None:
    assert lines([1, "/a"], [22, None]) == [
        " ID | PAGE",
        "-----------",
        "  1 | /a",
        " 22 | null",
    ]


def test_where_more_may_come_types_have_their_room() -> None:
    assert lines([1, "/a"], more=True)[-1] == "             1 | /a"


def test_a_wide_value_goes_on_below() -> None:
    assert lines([1, "abcdefghijklmnop"], width=16) == [
        " ID | PAGE",
        "----------------",
        "  1 | abcdefghi",
        "    | jklmnop",
    ]
    assert lines([1, "abcdefghijklmnop"])[-1] == "  1 | abcdefghijklmnop"


def test_wide_characters_stay_in_line() -> None:
    bars = [cell_len(line[: line.index("|")]) for line in lines([1, "日本"], [2, "x"]) if "|" in line]
    assert len(set(bars)) == 1
    grid = TextTable(("A", "B"), ("STRING", "STRING"), [["日本", "x"], ["abcd", "y"]], width=None, more=False)
    assert [cell_len(line) for row in (["日本", "x"], ["abcd", "y"]) for line in grid.row(row)] == [9, 9]


def test_a_value_cannot_draw_on_the_terminal() -> None:
    assert cell_text("a\x1b[2J\nb\x9b\u202e") == "a\\x1b[2J\\nb\\x9b\\u202e"
    assert cell_text({"a": Decimal("1.50"), "b": ["ü", None, True]}) == '{"a": 1.50, "b": ["ü", null, true]}'


def test_the_widest_give_way() -> None:
    assert fit_widths([5, 40, 60], 65) == [5, 30, 30]
    assert fit_widths([5, 10], 100) == [5, 10]
    assert fit_widths([30, 30, 30], 3) == [6, 6, 6]


def test_a_line_for_each_value() -> None:
    assert list(vertical_row(3, NAMES, [1, "a" * 200])) == ["-[ row 3 ]----", "ID   | 1", f"PAGE | {'a' * 200}"]
