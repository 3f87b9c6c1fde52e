"""Draws rows as charts.

draw_chart(ChartPanel("bar", "PAGE_VIEWS", x="PAGE", y="VIEWS"), rows).options
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.chart_kinds import (
    CHART_KINDS,
    COLOURS,
    MAX_BARS,
    MAX_LINES,
    ChartKind,
    Options,
    message,
)
from headrace.serve.console.widgets.chart_panel import COLUMN_ROLES, MAX_ROWS, TIME_COLUMNS, ChartPanel, Row
from headrace.serve.console.widgets.chart_theme import themed


@dataclass(frozen=True)
class DrawnChart:
    """`options` are for ECharts; `note` says what the chart leaves out; `summary` is for screen readers."""

    options: Options
    note: str = ""
    summary: str = ""


def missing_columns(panel: ChartPanel) -> str:
    """The columns that must be chosen before the chart can be queried and drawn."""
    kind = CHART_KINDS.get(panel.kind)
    if kind is None:
        return f'Unknown chart type "{panel.kind}"'
    if all(getattr(panel, name) for name in kind.needs):
        return ""
    return "Choose " + ", ".join(f"{COLUMN_ROLES[name]} ({what})" for name, what in kind.needs.items())


def placeholder(panel: ChartPanel, why: str) -> DrawnChart:
    return DrawnChart(themed(message(why)), "", f"{panel.name}: {why}")


def draw_chart(
    panel: ChartPanel, rows: Sequence[Row], times: Collection[str] = TIME_COLUMNS, *, is_cut: bool = False
) -> DrawnChart:
    """Draw rows of x, y and by. Rows with a null in a required column are skipped."""
    if why := missing_columns(panel):
        return placeholder(panel, why)
    kind = CHART_KINDS[panel.kind]
    needed = [("x", "y", "by").index(name) for name in kind.needs]
    complete_rows = [row for row in rows if all(row[place] is not None for place in needed)]
    if not complete_rows:
        return placeholder(panel, "No rows yet")
    options = themed({**_plain(), **kind.draw(panel, complete_rows, times)})
    summary = f"{panel.name}: {_summary(kind, options)}"
    options["aria"] = {"enabled": True, "label": {"description": summary}}
    return DrawnChart(options, _note(panel, complete_rows, times, is_cut=is_cut), summary)


def _note(panel: ChartPanel, rows: Sequence[Row], times: Collection[str], *, is_cut: bool) -> str:
    notes: list[str] = []
    names = len({str(row[0]) for row in rows})
    if has_more := panel.kind == "bar" and names > MAX_BARS:
        which, of = "last" if panel.x in times else "first", f"more than {MAX_ROWS:,}" if is_cut else f"{names:,}"
        notes.append(f"Shows the {which} {MAX_BARS} of {of} values of {panel.x}")
    if panel.by and panel.kind in ("line", "bar") and (lines := len({str(row[2]) for row in rows})) > MAX_LINES:
        notes.append(f"Shows the {MAX_LINES} largest of {lines:,} values of {panel.by}")
    if is_cut and not has_more:
        which, what = "last" if panel.kind == "line" else "first", "sums" if panel.kind in ("bar", "heat") else "rows"
        notes.append(f"Shows the {which} {MAX_ROWS:,} {what}")
    return ". ".join(notes)


def _summary(kind: ChartKind, options: Options) -> str:
    if "series" not in options:
        return options["title"]["text"]
    points = [point for series in options["series"] for point in series["data"]]
    if kind.name == "map":
        return f"{kind.label}, {len(points):,} points"
    if kind.name == "histogram":
        edges = options["xAxis"]["data"]
        return f"{kind.label} of {sum(points):,} values, in bins from {edges[0]} to {edges[-1]}"
    numbers = [point[-1] if isinstance(point, list) else point for point in points]
    numbers = [number for number in numbers if number is not None]
    if not numbers:
        return f"{kind.label}, no values"
    lowest, highest = (number_format.format_number(one(numbers)) for one in (min, max))
    return f"{kind.label}, {len(numbers):,} values from {lowest} to {highest}"


def _plain() -> Options:
    return {
        "animation": False,
        "useUTC": True,
        "color": COLOURS,
        "grid": {"left": 8, "right": 24, "top": 32, "bottom": 8, "containLabel": True},
        "tooltip": {"trigger": "item"},
    }
