"""Tables on terminals of any width."""

from __future__ import annotations

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.cli.io import output

ROW = {"query": "CTAS_CLICKS_12", "state": "suspended", "records_per_s": 120_000, "dead_letters": 0}
NAMES = st.text("abcdefg_", min_size=1, max_size=12)
ROWS = st.lists(NAMES, min_size=1, max_size=5, unique=True).flatmap(
    lambda columns: st.lists(
        st.fixed_dictionaries(dict.fromkeys(columns, st.integers() | st.text("xyz -", max_size=20))),
        min_size=1,
        max_size=4,
    )
)


def printed(rows: list[dict[str, object]], width: int) -> list[str]:
    file = StringIO()
    output.print_table(Console(file=file, width=width, highlight=False), rows, list(rows[0]))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_wide_terminal_shows_a_row_in_a_line() -> None:
    assert printed([ROW], 80) == [
        "query           state      records per s  dead letters",
        "CTAS_CLICKS_12  suspended        120,000             0",
    ]


def test_headings_wrap_before_values_do() -> None:
    assert printed([ROW], 45) == [
        "                             records     dead",
        "query           state          per s  letters",
        "CTAS_CLICKS_12  suspended    120,000        0",
    ]


def test_a_narrow_terminal_shows_one_value_per_line() -> None:
    assert printed([ROW, ROW], 30) == [
        "query          CTAS_CLICKS_12",
        "state          suspended",
        "records per s  120,000",
        "dead letters   0",
        "",
        "query          CTAS_CLICKS_12",
        "state          suspended",
        "records per s  120,000",
        "dead letters   0",
    ]


@given(rows=ROWS, width=st.integers(20, 120))
def test_no_word_is_lost_at_any_width(rows: list[dict[str, object]], width: int) -> None:
    lines = printed(rows, width)
    assert max(map(len, lines)) <= width
    shown = "".join("".join(lines).split())
    for row in rows:
        for value in row.values():
            for word in output.value_text(value).split():
                assert len(word) > width // 2 or word in shown
