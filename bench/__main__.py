"""`python -m bench TABLE`: runs a table, prints it, writes it to bench/results, and fails if a target is missed."""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import RESULTS, ROOT
from bench.harness import settings as table_settings
from bench.harness.case import Case
from bench.harness.machine import describe
from bench.harness.page import page
from bench.harness.report import Report, show, write
from bench.harness.results import Run, figure
from bench.harness.run import run_table
from bench.tables import names, table
from headrace.errors import HeadraceError


def main(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of: {', '.join(names())}.")],
    only: Annotated[list[str] | None, typer.Option(help="Run only this case; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small workloads, to check that everything works.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Counted runs of each side.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Another settings file.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results, on the disk to be measured.")] = RESULTS,
) -> None:
    """Run a table of benchmarks."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that sides, brokers and folders are cleaned up
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        report = measure(name, only or [], quick, repeats, settings, out, console)
    except HeadraceError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from error
    show(report, console)
    for file in write(report, out, page(report)):
        console.print(f"[dim]{file}[/dim]", soft_wrap=True, highlight=False)
    raise typer.Exit(0 if report.ok else 1)


def measure(
    name: str, only: list[str], quick: bool, repeats: int | None, file: Path | None, out: Path, console: Console
) -> Report:
    selected = table(name)
    cases = [selected.case(case) for case in only] or list(selected.cases)
    file = file or ROOT / "bench" / "settings" / f"{name}.toml"
    loaded = table_settings.load(file, selected, quick=quick, repeats=repeats)
    at, machine = datetime.now(UTC), describe(out)
    results = run_table(selected, cases, loaded, out.resolve() / f"tmp-{os.getpid()}", _progress(console))
    return Report(selected, loaded, results, machine, at, quick)


def _progress(console: Console):
    def say(case: Case, run: Run) -> None:
        part = "warm-up" if run.warmup else f"run {run.number}"
        result = "failed" if run.error else figure("rate", run.metrics["rate"], case.unit)
        console.print(f"[dim]{case.name:28} {run.side:22} {part:8} {result}[/dim]", highlight=False)

    return say


if __name__ == "__main__":
    typer.run(main)
