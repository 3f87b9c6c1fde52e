"""Text tables: column widths, wrapping and wide characters."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rich.cells import cell_len

from headrace.cli.shell.text_table import TextTable, cell_text, fit_widths, listing_table, vertical_row

NAMES, TYPES = ("ID", "PAGE"), ("BIGINT", "STRING")


def lines(*rows: list[Any], width: int | None = None, more: bool = False) -> list[str]:
    grid = TextTable(NAMES, TYPES, rows, width=width, more=more)
    return [*grid.head(), *(line for row in rows for line in grid.row(row))]


def test_columns_are_as_wide_as_their_values() -> None:
    assert lines([1, "/a"], [22, None]) == [
        " ID | PAGE",
        "-----------",
        "  1 | /a",
        " 22 | null",
    ]


def test_columns_of_a_running_query_are_as_wide_as_their_types() -> None:
    assert lines([1, "/a"], more=True)[-1] == "             1 | /a"


def test_a_wide_value_wraps() -> None:
    assert lines([1, "abcdefghijklmnop"], width=16) == [
        " ID | PAGE",
        "----------------",
        "  1 | abcdefghi",
        "    | jklmnop",
    ]
    assert lines([1, "abcdefghijklmnop"])[-1] == "  1 | abcdefghijklmnop"


def test_wide_characters_stay_aligned() -> None:
    bars = [cell_len(line[: line.index("|")]) for line in lines([1, "日本"], [2, "x"]) if "|" in line]
    assert len(set(bars)) == 1
    grid = TextTable(("A", "B"), ("STRING", "STRING"), [["日本", "x"], ["abcd", "y"]], width=None, more=False)
    assert [cell_len(line) for row in (["日本", "x"], ["abcd", "y"]) for line in grid.row(row)] == [9, 9]


def test_control_characters_in_a_value_are_escaped() -> None:
    assert cell_text("a\x1b[2J\nb\x9b\u202e") == "a\\x1b[2J\\nb\\x9b\\u202e"
    assert cell_text({"a": Decimal("1.50"), "b": ["ü", None, True]}) == '{"a": 1.50, "b": ["ü", null, true]}'


def test_the_widest_columns_shrink_first() -> None:
    assert fit_widths([5, 40, 60], 65) == [5, 30, 30]
    assert fit_widths([5, 10], 100) == [5, 10]
    assert fit_widths([30, 30, 30], 3) == [6, 6, 6]


def test_vertical_output_has_a_line_for_each_value() -> None:
    assert list(vertical_row(3, NAMES, [1, "a" * 200])) == ["-[ row 3 ]----", "ID   | 1", f"PAGE | {'a' * 200}"]


def test_wide_characters_take_two_columns() -> None:
    shown = lines([1, "東京"], [22, "🚲"], [333, "a"])
    assert {cell_len(line.split("|")[0]) for line in shown if "|" in line} == {5}
    assert shown[2:4] == ["   1 | 東京", "  22 | 🚲"]
    folded = lines([1, "東京都渋谷区神宮前"], width=16)
    assert all(cell_len(line) <= 16 for line in folded)
    assert "".join(line.split("|")[1].strip() for line in folded[2:]) == "東京都渋谷区神宮前"


def test_a_table_with_too_many_columns_does_not_fit() -> None:
    names = [f"COLUMN_{number}" for number in range(12)]
    row = ["a long value"] * 12
    assert not TextTable(names, ["STRING"] * 12, [row], width=60, more=False).fits
    assert TextTable(names, ["STRING"] * 12, [row], width=None, more=False).fits
    assert TextTable(names, ["STRING"] * 12, [row], width=120, more=False).fits


def test_a_listing_fits_the_terminal() -> None:
    headings, rows = ["Stream Name", "Format"], [["A_RATHER_LONG_NAME_OF_A_STREAM", "JSON"], ["東", "AVRO"]]
    drawn = listing_table(24)(headings, rows)
    assert all(cell_len(line) <= 24 for line in drawn)
    assert drawn[0] == " Stream Name   | Format"
    assert drawn[-2:] == [" 東            | AVRO", "-" * 24]
    assert listing_table(8)(headings, rows)[1:3] == [
        "Stream Name | A_RATHER_LONG_NAME_OF_A_STREAM",
        "Format      | JSON",
    ]
