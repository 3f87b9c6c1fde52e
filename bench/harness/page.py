"""The results as one self-contained HTML page: tables, and plots as embedded images."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence

import matplotlib

matplotlib.use("svg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.harness.report import COLUMNS, Report, faults, footer, rows
from bench.harness.results import figure, metric_names, spread
from bench.harness.run import CaseResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .8rem; border-bottom: 1px solid #d5dde5 }
.ok { color: #16794a } .missed, .failed { color: #b3261e; font-weight: 600 } .information, p.about { color: #66788a }
img { max-width: 100% } pre { background: #f4f6f8; padding: .8rem; overflow-x: auto }
"""


def page(report: Report) -> str:
    body = [
        f"<h1>{html.escape(report.table.what)}</h1>",
        *(f'<p class="about">{html.escape(line)}</p>' for line in footer(report)),
        _table(COLUMNS, ((cells, verdict.state.value) for verdict, cells in rows(report.results))),
        *(_case(result) for result in report.results),
        *(
            f"<h3>{html.escape(f'{c} / {s} failed')}</h3><pre>{html.escape(e)}</pre>"
            for c, s, e in faults(report.results)
        ),
        "<h2>Libraries</h2>",
        f'<p class="about">{html.escape(_libraries(report))}</p>',
    ]
    title = html.escape(report.name)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _libraries(report: Report) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(report.machine["libraries"].items()))


def _table(heads: Sequence[str], lines: Iterable[tuple[Sequence[str], str]]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells[:-1])}"
        f'<td class="{mark}">{html.escape(cells[-1])}</td></tr>'
        for cells, mark in lines
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _case(result: CaseResult) -> str:
    sides = list(result.case.sides)
    lines = [
        ([name, *(_spread(result, side, name) for side in sides)], "")
        for name in metric_names(result.runs)
        if name not in ("records",)
    ]
    return (
        f"<h2>{html.escape(result.case.name)}</h2><p>{html.escape(result.case.what)}</p>"
        f"{_image(result)}{_table(('min / median / max', *sides), lines)}"
    )


def _spread(result: CaseResult, side: str, metric: str) -> str:
    values = spread(result.runs, side, metric)
    return " / ".join(figure(metric, value, result.case.unit) for value in values) if values else "-"


def _image(result: CaseResult) -> str:
    metrics = list(dict.fromkeys(verdict.metric for verdict in result.verdicts))
    curves = any(run.curve for run in result.runs)
    drawing = Figure(figsize=(3.6 * (len(metrics) + curves), 3), layout="constrained")
    axes = drawing.subplots(1, len(metrics) + curves, squeeze=False)[0]
    for place, metric in zip(axes, metrics, strict=False):
        _bars(place, result, metric)
    if curves:
        _curves(axes[-1], result)
    out = io.BytesIO()
    drawing.savefig(out, format="svg")
    data = base64.b64encode(out.getvalue()).decode()
    return f'<img alt="{html.escape(result.case.name)}" src="data:image/svg+xml;base64,{data}">'


def _bars(axes: Axes, result: CaseResult, metric: str) -> None:
    spreads = {side: spread(result.runs, side, metric) for side in result.case.sides}
    measured = {side: value for side, value in spreads.items() if value}
    medians = [value.median for value in measured.values()]
    errors = [[v.median - v.min for v in measured.values()], [v.max - v.median for v in measured.values()]]
    if measured:
        axes.bar(list(measured), medians, yerr=errors, capsize=4, color=[f"C{i}" for i in range(len(measured))])
    axes.set_title(f"{metric} (median, min to max)", fontsize=9)
    axes.tick_params(labelsize=7)


def _curves(axes: Axes, result: CaseResult) -> None:
    """Latency over 1 / (1 - quantile), which gives the tail as much room as the middle."""
    for colour, side in enumerate(result.case.sides):
        for run in result.runs:
            points = [(1 / (1 - q), value) for q, value in run.curve if q < 1] if run.side == side else []
            if points and not run.warmup:
                axes.plot(*zip(*points, strict=True), color=f"C{colour}", linewidth=1)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks([2, 10, 100, 1000], ["p50", "p90", "p99", "p99.9"])
    axes.set_title("latency, ms, each run", fontsize=9)
    axes.tick_params(labelsize=7)
