"""The demo's counts, and how they are shown with and without a terminal."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from headrace import project_template
from headrace.demo.clicks import PAGES, random_clicks
from headrace.demo.counts import ClickCounts
from headrace.demo.dashboard import LAST_MINUTE
from headrace.demo.display import LineDisplay, count_line, count_table, sparkline
from headrace.lang.ksql.scripts.checker import check_script


def counts(*rows: tuple[str, int, int]) -> ClickCounts:
    made = ClickCounts()
    for page, second, views in rows:
        made.add(json.dumps([page, second * 1_000, views, 2.5]).encode())
    return made


def test_a_later_count_of_a_second_replaces_the_earlier_one() -> None:
    seen = counts(("/", 1, 5), ("/cart", 1, 2), ("/", 1, 7), ("/", 2, 1))
    assert (seen.total, seen.changes) == (10, 4)
    assert seen.views("/", 1_000) == 7
    assert seen.mean_dwell("/", 1_000) == 2.5


def test_the_unfinished_second_is_excluded() -> None:
    seen = counts(("/", 1, 5), ("/", 2, 7), ("/", 3, 1))
    assert seen.last_full_second == 2_000
    assert seen.history("/", 3) == [0, 5, 7]
    assert counts(("/", 1, 5)).last_full_second is None


def test_old_seconds_are_dropped_but_counted() -> None:
    seen = counts(*(("/", second, 1) for second in range(1_000)))
    assert seen.total == 1_000
    assert len(seen.seconds) == 120


def test_the_dashboards_condition_is_ksql() -> None:
    query = f"SELECT * FROM page_views WHERE {LAST_MINUTE};"
    assert not check_script(project_template.STATEMENTS + query, "clicks.ksql").errors


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_table_fits_the_terminal(width: int) -> None:
    seen = counts(*(("/checkout", second, 500 * second) for second in range(1, 90)))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as shown:
        console.print(count_table(seen, width))
    lines = shown.get().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) == len(PAGES) + 5  # a title, four borders and headings: no line wraps
    assert any("44,000" in line for line in lines)


def test_a_sparkline_is_scaled_to_the_maximum() -> None:
    assert sparkline([0, 4, 8], 8) == " ▄█"
    assert sparkline([0, 0], 0) == "  "


def test_output_without_a_terminal_is_plain_lines() -> None:
    out = io.StringIO()
    display = LineDisplay(Console(file=out), every=0.0)
    with display.starting() as step:
        step("starting the server")
        step("starting the server")  # at once: not printed again
        step("starting the queries")
    with display.showing() as show:
        show(counts(("/", 1, 5)))  # no second is full yet
        show(counts(("/", 1, 5), ("/cart", 1, 9), ("/", 2, 1)))
        show(counts(("/", 1, 5), ("/cart", 1, 9), ("/", 2, 2)))  # the same second
    lines = out.getvalue().splitlines()
    assert [line.strip() for line in lines[:2]] == ["0 s  starting the server", "0 s  starting the queries"]
    assert [line.split("  ")[1] for line in lines[2:]] == ["14 clicks/s: /cart 9, / 5, /search 0"]
    assert "\x1b" not in out.getvalue()
    assert count_line(counts(("/", 1, 5), ("/", 2, 1))).endswith("5 clicks/s: / 5, /search 0, /cart 0")


def test_clicks_are_json_rows_with_a_visitor_as_key() -> None:
    clicks = random_clicks(np.random.default_rng(1), 50)
    assert {json.loads(click.value or b"")["PAGE"] for click in clicks} <= set(PAGES)
    assert all(click.key is not None and click.key.isdigit() for click in clicks)
    assert len(clicks) == 50
