"""The results of a table as JSON with every run, as Markdown, and as a table in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from bench.harness.case import Table
from bench.harness.results import figure, metric_names, short, spread
from bench.harness.run import CaseResult
from bench.harness.settings import TableSettings
from bench.harness.targets import State, Verdict

COLUMNS = ("case", "metric", "ours", "peer", "ratio", "target", "")
COLOURS: Mapping[State, str] = {
    State.OK: "green",
    State.MISSED: "bold red",
    State.FAILED: "bold red",
    State.INFORMATION: "dim",
}


@dataclass(frozen=True)
class Report:
    """One run of a table, with everything that the reports contain."""

    table: Table
    settings: TableSettings
    results: Sequence[CaseResult]
    machine: Mapping[str, Any]
    at: datetime
    quick: bool

    @property
    def ok(self) -> bool:
        return all(verdict.state.is_good for result in self.results for verdict in result.verdicts)

    @property
    def name(self) -> str:
        return f"{self.table.name}-{self.at.astimezone(UTC):%Y%m%d-%H%M%S}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table.name,
            "what": self.table.what,
            "date": self.at.astimezone(UTC).isoformat(timespec="seconds"),
            "quick": self.quick,
            "ok": self.ok,
            "machine": dict(self.machine),
            "settings": self.settings.as_dict(),
            "cases": [_case(result) for result in self.results],
        }


def _case(result: CaseResult) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "what": result.case.what,
        "unit": result.case.unit,
        "sides": {side: _side(result, side) for side in result.case.sides},
        "verdicts": [{**asdict(verdict), "ratio": verdict.ratio} for verdict in result.verdicts],
    }


def _side(result: CaseResult, side: str) -> dict[str, Any]:
    spreads = {name: spread(result.runs, side, name) for name in metric_names(result.runs)}
    return {
        "summary": {name: value._asdict() for name, value in spreads.items() if value},
        "runs": [asdict(run) for run in result.runs if run.side == side],
        "settings": {**result.settings.workload, **result.case.sides[side].settings},
    }


def rows(results: Sequence[CaseResult]) -> list[tuple[Verdict, tuple[str, ...]]]:
    """The lines of the table, as text."""
    return [(verdict, _row(verdict, result.case.unit)) for result in results for verdict in result.verdicts]


def _row(verdict: Verdict, unit: str) -> tuple[str, ...]:
    peer = f"{verdict.peer_name} {figure(verdict.metric, verdict.peer, unit)}" if verdict.peer_name else "-"
    ratio = short(verdict.ratio) if verdict.ratio is not None else "-"
    ours = figure(verdict.metric, verdict.ours, unit)
    return (verdict.case, verdict.metric, ours, peer, ratio, verdict.target or "-", verdict.state.value)


def show(report: Report, console: Console) -> None:
    """Prints the table, and below it the errors of the sides that failed."""
    table = RichTable(*COLUMNS, title=report.table.what)
    for verdict, cells in rows(report.results):
        colour = COLOURS[verdict.state]
        table.add_row(*(escape(cell) for cell in cells[:-1]), f"[{colour}]{cells[-1]}[/{colour}]")
    console.print(table)
    for line in footer(report):
        console.print(line, style="dim", highlight=False)
    for case, side, error in faults(report.results):
        console.print(f"[bold red]{escape(case)} / {escape(side)} failed[/bold red]\n{escape(error)}", highlight=False)


def faults(results: Sequence[CaseResult]) -> list[tuple[str, str, str]]:
    return [(result.case.name, run.side, run.error) for result in results for run in result.runs if run.error]


def markdown(report: Report) -> str:
    """The table and the machine, for an issue or a page."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(cells)} |" for _, cells in rows(report.results)]
    return "\n".join([f"## {report.table.what}", "", *lines, "", "\n\n".join(footer(report)), ""])


def footer(report: Report) -> list[str]:
    """What the metrics mean, and where they were measured."""
    return [line for line in (report.table.note, about(report)) if line]


def about(report: Report) -> str:
    m = report.machine
    changed = " with changes" if m["changed"] else ""
    quick = " (quick: small workloads, do not quote the figures)" if report.quick else ""
    return (
        f"Median of {report.settings.repeats} runs after {report.settings.warmups} warm-up"
        f"{quick}. {m['cores']} cores, {m['cpu']}, {m['memory_gb']} GB, "
        f"{m['kernel']}, Python {m['python']}, fsync {m['fsync_ms']} ms, load before {m['load']}, "
        f"commit {m['commit'][:10]}{changed}, "
        f"{report.at:%Y-%m-%d %H:%M} UTC."
    )


def write(report: Report, folder: Path, html: str) -> list[Path]:
    """Writes all formats into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"json": json.dumps(report.as_dict(), indent=1), "md": markdown(report), "html": html}
    files = [folder / f"{report.name}.{ending}" for ending in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text + "\n")
    return files
