"""Colours of charts: CSS variables of the page, so that charts follow the light and the dark theme by themselves."""

from __future__ import annotations

from typing import Any

INK, FAINT, RULE, PAPER = (f"var(--hr-{name})" for name in ("ink", "faint", "rule", "paper"))
ON_DATA = "#14262b"
"""Text on coloured areas, which are the same in both themes."""
_AXES = ("xAxis", "yAxis")


def themed(options: dict[str, Any]) -> dict[str, Any]:
    """The ECharts options with the colours of all text, lines and tooltips."""
    tooltip = {
        "renderMode": "richText",  # as HTML, a name in a record could be markup
        "confine": True,
        "backgroundColor": PAPER,
        "borderColor": RULE,
        "textStyle": {"color": INK},
    }
    parts = {name: _PARTS[name](options[name]) for name in _PARTS.keys() & options.keys()}
    return {"textStyle": {"color": INK}, **options, **parts, "tooltip": {**tooltip, **options.get("tooltip", {})}}


def _axis(axis: dict[str, Any]) -> dict[str, Any]:
    lines = {name: {"lineStyle": {"color": FAINT}} for name in ("axisLine", "axisTick")}
    split = {**axis.get("splitLine", {}), "lineStyle": {"color": RULE}}
    label = {"color": INK, **axis.get("axisLabel", {})}
    return {**axis, **lines, "splitLine": split, "axisLabel": label, "nameTextStyle": {"color": FAINT}}


def _legend(legend: dict[str, Any]) -> dict[str, Any]:
    icons = {"pageIconColor": INK, "pageIconInactiveColor": RULE, "pageTextStyle": {"color": INK}}
    return {
        **legend,
        **icons,
        "textStyle": {"color": INK, "width": 110, "overflow": "truncate"},
        "inactiveColor": FAINT,
    }


def _titled(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "textStyle": {"color": INK, **part.get("textStyle", {})}}


_PARTS = {**dict.fromkeys(_AXES, _axis), "legend": _legend, "title": _titled, "visualMap": _titled}
