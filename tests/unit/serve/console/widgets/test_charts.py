"""Charts: any rows can be drawn; sums agree with a plain loop; text is never executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serve.console.widgets.chart_kinds import CHART_KINDS, MAX_BARS, MAX_LINES, Options
from headrace.serve.console.widgets.chart_panel import ChartPanel
from headrace.serve.console.widgets.charts import draw_chart

COLUMNS = ["WINDOWSTART", "NAME", "N", "OTHER"]
CELLS = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=8) | st.just([1])
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=20)
CHOICES = st.sampled_from(["", *COLUMNS, "GONE"])


def options(panel: ChartPanel, columns: list[str], rows: list[Any]) -> Options:
    """What is drawn of whole rows."""
    places = [columns.index(name) if name in columns else None for name in (panel.x, panel.y, panel.by)]
    return draw_chart(panel, [[None if place is None else row[place] for place in places] for row in rows]).options


@given(st.sampled_from(list(CHART_KINDS)), CHOICES, CHOICES, CHOICES, st.integers(-5, 100), ROWS)
def test_any_rows_can_be_drawn(kind: str, x: str, y: str, by: str, top: int, rows: list[Any]) -> None:
    drawn = options(ChartPanel(kind, "V", x, y, by, top), COLUMNS, rows)
    orjson.dumps(drawn)
    assert {"series", "title"} & drawn.keys()


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from(["kind", "view", "x", "y", "top", "where", "title", "later"]), JSON), ROWS)
def test_any_saved_json_becomes_a_panel(told: dict[str, Any], rows: list[Any]) -> None:
    panel = ChartPanel.of(told)
    assert {"series", "title"} & options(panel, COLUMNS, rows).keys()
    assert panel.name


@given(ROWS)
def test_values_of_rows_are_never_option_names(rows: list[Any]) -> None:
    """NiceGUI takes what stands under a key that begins with a colon for a script."""
    for kind in CHART_KINDS:
        drawn = options(ChartPanel(kind, "V", "NAME", "N", "OTHER"), COLUMNS, rows)
        assert not [key for key in keys(drawn) if not key.isidentifier()]


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(inner)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-100, 100)), min_size=1))
def test_bars_sum_the_rows_of_a_name(rows: list[tuple[str, int]]) -> None:
    wanted: Counter[str] = Counter()
    for name, number in rows:
        wanted[name] += number
    drawn = options(ChartPanel("bar", "V", "NAME", "N"), ["NAME", "N"], rows)
    assert dict(zip(drawn["xAxis"]["data"], drawn["series"][0]["data"], strict=True)) == dict(wanted)
    largest = options(ChartPanel("top", "V", "NAME", "N", top=2), ["NAME", "N"], rows)
    assert largest["series"][0]["data"] == sorted(wanted.values())[-2:]
    assert (
        options(ChartPanel("number", "V", y="N"), ["NAME", "N"], rows)["title"]["text"] == f"{sum(wanted.values()):,}"
    )


@given(st.lists(st.integers(-1000, 1000) | st.floats(-1e6, 1e6), min_size=1))
def test_a_histogram_counts_every_number_once(numbers: list[float]) -> None:
    drawn = options(ChartPanel("histogram", "V", "N"), ["N"], [[number] for number in numbers])
    assert sum(drawn["series"][0]["data"]) == len(numbers)


def test_lines_are_ordered_by_time_and_the_largest_series_are_shown() -> None:
    rows = [[at, f"s{n}", n] for at in (3_000, 1_000, 2_000) for n in range(20)]
    drawn = options(ChartPanel("line", "V", "WINDOWSTART", "N", "NAME"), ["WINDOWSTART", "NAME", "N"], rows)
    assert [line["name"] for line in drawn["series"]] == sorted(f"s{n}" for n in range(8, 20))
    assert [point[0] for point in drawn["series"][0]["data"]] == [1_000, 2_000, 3_000]


@pytest.mark.parametrize(
    ("kind", "told"),
    [("bar", "X axis (category)"), ("heat", "Group by (category)"), ("number", "Y axis (number, summed)")],
)
def test_missing_options_of_a_chart_are_requested(kind: str, told: str) -> None:
    assert told in options(ChartPanel(kind, "V"), COLUMNS, [])["title"]["text"]


HUGE = 1.7e308


@pytest.mark.parametrize("kind", CHART_KINDS)
def test_extreme_numbers_are_drawn(kind: str) -> None:
    drawn = draw_chart(ChartPanel(kind, "V", "A", "B", "C"), [[-HUGE, HUGE, 1], [HUGE, HUGE, 2], [10**400, 10**400, 3]])
    assert {"series", "title"} & drawn.options.keys()


def test_bars_over_numbers_are_sorted_and_omitted_values_reported() -> None:
    drawn = draw_chart(ChartPanel("bar", "V", "N", "Y"), [[n, 1, None] for n in reversed(range(MAX_BARS + 40))])
    assert drawn.options["xAxis"]["data"] == [str(n) for n in range(MAX_BARS)]
    assert drawn.note == "Shows the first 60 of 100 values of N"
    times = draw_chart(ChartPanel("bar", "V", "WINDOWSTART", "Y"), [[n * 1000, 1, None] for n in range(100)])
    assert times.options["xAxis"]["data"][-1] == "1970-01-01 00:01:39"
    assert times.note == "Shows the last 60 of 100 values of WINDOWSTART"


def test_bars_are_stacked_by_series() -> None:
    drawn = draw_chart(ChartPanel("bar", "V", "X", "Y", "BY"), [["a", 1, "u"], ["a", 2, "v"], ["b", 4, "v"]])
    assert {one["name"]: one["data"] for one in drawn.options["series"]} == {"u": [1.0, None], "v": [2.0, 4.0]}
    many = draw_chart(ChartPanel("bar", "V", "X", "Y", "BY"), [["a", n, n] for n in range(MAX_LINES + 1)])
    assert many.note == "Shows the 12 largest of 13 values of BY"


def test_a_chart_reports_omitted_rows() -> None:
    rows = [[1, 1, None]]
    assert draw_chart(ChartPanel("histogram", "V", "X"), rows, is_cut=True).note == "Shows the first 5,000 rows"
    assert draw_chart(ChartPanel("line", "V", "X", "Y"), rows, is_cut=True).note == "Shows the last 5,000 rows"
    assert draw_chart(ChartPanel("line", "V", "X", "Y"), rows).note == ""


@pytest.mark.parametrize(
    ("value", "told"),
    [(1_234_567.5, "1,234,567.5"), (2**60 + 1, "1,152,921,504,606,846,977"), (0.1, "0.1"), ("12", "12")],
)
def test_a_number_is_shown_in_full(value: object, told: str) -> None:
    drawn = draw_chart(ChartPanel("number", "V", y="Y", title="All"), [[None, value, None]])
    assert drawn.options["title"]["text"] == told
    assert drawn.summary == f"All: {told}"


@pytest.mark.parametrize("kind", list(CHART_KINDS))
def test_a_column_without_numbers_is_reported(kind: str) -> None:
    drawn = draw_chart(ChartPanel(kind, "V", "X", "Y", "BY"), [["a", "b", "c"]])
    assert "is not numeric" in drawn.options["title"]["text"]


def test_edges_of_a_histogram_are_distinct() -> None:
    start = 1_700_000_000_000
    rows = [[start + n, None, None] for n in range(100)]
    for panel in (ChartPanel("histogram", "V", "N"), ChartPanel("histogram", "V", "ROWTIME")):
        labels = draw_chart(panel, rows).options["xAxis"]["data"]
        assert len(set(labels)) == len(labels)
    assert labels[0] == "2023-11-14 22:13:20.000"


def test_charts_show_times_in_utc() -> None:
    assert draw_chart(ChartPanel("line", "V", "ROWTIME", "Y"), [[1, 1, None]]).options["useUTC"]


@pytest.mark.parametrize("kind", list(CHART_KINDS))
def test_colours_of_text_and_lines_follow_the_theme(kind: str) -> None:
    drawn = draw_chart(ChartPanel(kind, "V", "X", "Y", "BY"), [[1, 2, 3], [2, 3, 4]]).options
    assert drawn["tooltip"]["backgroundColor"] == "var(--hr-paper)"
    assert drawn["tooltip"]["textStyle"]["color"] == "var(--hr-ink)"
    for axis in (drawn[name] for name in ("xAxis", "yAxis") if name in drawn):
        assert axis["axisLabel"]["color"] == "var(--hr-ink)"
        assert axis["splitLine"]["lineStyle"]["color"] == "var(--hr-rule)"


def test_long_names_are_truncated_and_times_are_not() -> None:
    names = draw_chart(ChartPanel("bar", "V", "X", "Y"), [["a" * 80, 1, None]]).options["xAxis"]["axisLabel"]
    times = draw_chart(ChartPanel("bar", "V", "ROWTIME", "Y"), [[1, 1, None]]).options["xAxis"]["axisLabel"]
    assert (names["overflow"], times["overflow"]) == ("truncate", "break")
