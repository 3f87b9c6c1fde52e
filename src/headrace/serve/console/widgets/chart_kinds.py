"""The kinds of charts: the columns that each one needs, and its ECharts options for rows of x, y and by.

Data is passed as lists of numbers and text only. ECharts shows text as text, and nothing here is a script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.chart_panel import ChartPanel, Row
from headrace.serve.console.widgets.chart_theme import INK, ON_DATA

Options = dict[str, Any]
MAX_LINES = 12
MAX_BARS = 60
MAX_EXACT_INTEGER = 2**53
"""Integers up to here are exact in a browser."""
_BINS = 24
COLOURS = ["#1b9aa3", "#e2a03f", "#7b72c9", "#5aa469", "#c9656b", "#4f86c6", "#9a8c3d", "#b06ab3", "#708590"]


@dataclass(frozen=True)
class ChartKind:
    """A kind of chart; `needs` are its required columns, each with what it must hold."""

    name: str
    label: str
    needs: Mapping[str, str]
    draw: Callable[[ChartPanel, list[Row], Collection[str]], Options]


def message(text: str) -> Options:
    """A text in place of a chart."""
    style = {
        "fontWeight": "normal",
        "fontSize": 15,
        "lineHeight": 22,
        "width": 280,
        "overflow": "break",
    }  # fits a phone
    return {"title": {"text": text, "left": "center", "top": "middle", "textStyle": style}}


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and _number(value) is not None


def _axis(name: str, values: Sequence[Any], times: Collection[str]) -> Options:
    """A time, number or category axis, depending on the values."""
    if all(map(_is_number, values)):
        return {"type": "time", "axisLabel": _NUMBERS} if name in times else {"type": "value", "scale": True}
    return _names(list(dict.fromkeys(map(str, values))))


_NUMBERS = {"hideOverlap": True, "alignMinLabel": "left", "alignMaxLabel": "right"}
"""Labels along the x axis: none is cut off at the edge."""


def _names(names: list[str], *, are_times: bool = False, width: int = 96) -> Options:
    """A category axis. Long names are truncated, times have two lines; the tooltip has them in full."""
    fits = {"width": 72, "overflow": "break"} if are_times else {"width": width, "overflow": "truncate"}
    return {"type": "category", "data": names, "axisLabel": {"interval": 0, "hideOverlap": True, **fits}}


def _label(value: Any, *, is_time: bool) -> str:
    return number_format.format_time(value).removesuffix(".000") if is_time and isinstance(value, int) else str(value)


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Numbers by size, before names."""
    return sorted(values, key=lambda value: (0, value, "") if _is_number(value) else (1, 0, str(value)))


def _none(name: str) -> Options:
    return message(f"{name} is not numeric")


# -- kinds ----------------------------------------------------------------------------------------------------------


def _line(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    axis = _axis(panel.x, [row[0] for row in rows], times)
    lines: dict[str, list[list[Any]]] = {}
    for x, y, by in rows:
        if (number := _number(y)) is not None:
            lines.setdefault(str(by) if panel.by else panel.y, []).append([_point(x, axis), number])
    if not lines:
        return _none(panel.y)
    most = sorted(lines, key=lambda name: -sum(point[1] for point in lines[name]))[:MAX_LINES]
    series = [
        {
            "type": "line",
            "name": name,
            "showSymbol": len(lines[name]) < 30,
            "data": sorted(lines[name], key=_place(axis)),
        }
        for name in sorted(most)
    ]
    return {"xAxis": axis, "yAxis": {"type": "value"}, "series": series, **_legend(panel), "tooltip": _TOGETHER}


_TOGETHER = {"trigger": "axis"}


def _legend(panel: ChartPanel) -> Options:
    return {"legend": {"type": "scroll", "top": 0}} if panel.by else {}


def _point(x: Any, axis: Options) -> Any:
    if "data" in axis:
        return str(x)
    return float(x) if isinstance(x, Decimal) or abs(x) > MAX_EXACT_INTEGER else x


def _place(axis: Options) -> Callable[[list[Any]], Any]:
    if "data" not in axis:
        return lambda point: point[0]
    order = _numbered(axis["data"])
    return lambda point: order[point[0]]


def _summed(rows: list[Row]) -> dict[Any, float]:
    """Sum the rows of the same x: a windowed view has several."""
    sums: dict[Any, float] = {}
    names: dict[str, Any] = {}
    for x, y, _ in rows:
        if (number := _number(y)) is not None:
            name = names.setdefault(str(x), x if _is_number(x) else str(x))
            sums[name] = sums.get(name, 0.0) + number
    return sums


def _bar(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    sums, is_time = _summed(rows), panel.x in times
    if not sums:
        return _none(panel.y)
    order = _in_order(sums)
    bars = order[-MAX_BARS:] if is_time else order[:MAX_BARS]
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(str(row[2]) if panel.by else panel.y, []).append(row)
    stacked = {name: _summed(some) for name, some in parts.items()}
    largest = sorted(stacked, key=lambda name: -sum(stacked[name].values()))[:MAX_LINES]
    series = [
        {"type": "bar", "name": name, "stack": "all", "data": [stacked[name].get(one) for one in bars]}
        for name in sorted(largest)
    ]
    labels = [_label(one, is_time=is_time) for one in bars]
    return {
        "xAxis": _names(labels, are_times=is_time),
        "yAxis": {"type": "value"},
        "series": series,
        **_legend(panel),
    }


def _top(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    most = sorted(_summed(rows).items(), key=lambda one: -one[1])[: panel.most][::-1]
    if not most:
        return _none(panel.y)
    return {
        "xAxis": {"type": "value", "axisLabel": _NUMBERS},
        "yAxis": _names([_label(name, is_time=panel.x in times) for name, _ in most], are_times=panel.x in times),
        "grid": {"left": 8, "right": 64, "top": 32, "bottom": 8, "containLabel": True},  # for the longest bar's value
        "series": [
            {
                "type": "bar",
                "data": [value for _, value in most],
                "label": {"show": True, "position": "right", "color": INK},
            }
        ],
    }


def _heat(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    across, down = (_numbered(map(str, _in_order(row[place] for row in rows))) for place in (0, 2))
    cells: dict[tuple[int, int], float] = {}
    for x, y, by in rows:
        if (number := _number(y)) is not None:
            place = across[str(x)], down[str(by)]
            cells[place] = cells.get(place, 0.0) + number
    if not cells:
        return _none(panel.y)
    data = [[*place, value] for place, value in cells.items()]
    most = max(cells.values())
    labels = {str(row[0]): _label(row[0], is_time=panel.x in times) for row in rows}
    return {
        "xAxis": _names([labels[name] for name in across], are_times=panel.x in times),
        "yAxis": _names(list(down)),
        "visualMap": {
            "min": min(0.0, *cells.values()),
            "max": most or 1.0,
            "orient": "vertical",
            "right": 0,
            "inRange": {"color": ["#d9eef0", COLOURS[0]]},
        },
        "grid": {"left": 8, "right": 70, "top": 16, "bottom": 8, "containLabel": True},
        "series": [{"type": "heatmap", "data": data, "label": {"show": len(data) <= 100, "color": ON_DATA}}],
    }


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Numbered in order of first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _histogram(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    numbers = [number for row in rows if (number := _number(row[0])) is not None]
    if not numbers:
        return _none(panel.x)
    low, high = min(numbers), max(numbers)
    width = high / _BINS - low / _BINS or 1.0  # the difference of two large numbers may be 0
    counts = [0] * (_BINS if high > low else 1)
    for number in numbers:
        counts[min(int(number / width - low / width), len(counts) - 1)] += 1
    edges = [low * (1 - place / _BINS) + high * (place / _BINS) for place in range(len(counts))]
    labels = [number_format.format_time(int(edge)) for edge in edges] if panel.x in times else _distinct_labels(edges)
    return {
        "xAxis": _names(labels, are_times=panel.x in times),
        "yAxis": {"type": "value"},
        "series": [{"type": "bar", "barCategoryGap": "4%", "data": counts}],
    }


def _distinct_labels(edges: list[float]) -> list[str]:
    """Labels with the fewest digits that make them distinct."""
    tries = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(4, 17))
    return next((labels for labels in tries if len(set(labels)) == len(edges)), [repr(edge) for edge in edges])


def _single(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    numbers = [_exactly(row[1]) for row in rows]
    counted = [number for number in numbers if number is not None]
    if not counted:
        return _none(panel.y)
    text = number_format.format_number(sum(counted))
    style = {"fontSize": 44 if len(text) <= 10 else 26}  # fits a phone
    return {"title": {"text": text, "left": "center", "top": "middle", "textStyle": style}}


def _exactly(value: Any) -> float | None:
    """A number; an integer retains all its digits."""
    return value if isinstance(value, int) and _is_number(value) else _number(value)


def _map(panel: ChartPanel, rows: list[Row], times: Collection[str]) -> Options:
    """Longitude by latitude, without tiles, which would be loaded from another server."""
    points = [[_number(row[0]), _number(row[1]), "" if row[2] is None else str(row[2])] for row in rows]
    data = [point for point in points if point[0] is not None and point[1] is not None]
    if not data:
        return _none(f"{panel.x} or {panel.y}")
    lines = {"splitLine": {"show": True}, "type": "value", "scale": True}
    return {
        "xAxis": {**lines, "name": "longitude", "nameLocation": "middle", "nameGap": 24},
        "yAxis": {**lines, "name": "latitude"},
        "grid": {"left": 8, "right": 24, "top": 32, "bottom": 32, "containLabel": True},  # for the name of the x axis
        "series": [{"type": "scatter", "data": data, "symbolSize": 9, "itemStyle": {"opacity": 0.7}}],
    }


CHART_KINDS: Mapping[str, ChartKind] = {
    kind.name: kind
    for kind in (
        ChartKind("line", "Line", {"x": "time or number", "y": "number"}, _line),
        ChartKind("bar", "Bar", {"x": "category", "y": "number"}, _bar),
        ChartKind("top", "Top values", {"x": "category", "y": "number"}, _top),
        ChartKind("heat", "Heat map", {"x": "category", "y": "number", "by": "category"}, _heat),
        ChartKind("histogram", "Histogram", {"x": "number"}, _histogram),
        ChartKind("number", "Number", {"y": "number, summed"}, _single),
        ChartKind("map", "Map", {"x": "longitude", "y": "latitude"}, _map),
    )
}
