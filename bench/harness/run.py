"""Runs a table: for each case all sides in turn, A B A B, so that noise of the machine affects all of them.

The first rounds are warm-up: they are marked in the result and not counted. Each run is a new process with an empty
folder. A side that fails is reported and skipped in further rounds; the other sides and cases continue.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.harness.case import Case, Service, Table, Work
from bench.harness.measure import process_tree
from bench.harness.process import SideFailed, command, execute
from bench.harness.results import Run, curve_of, metrics_of
from bench.harness.settings import CaseSettings, TableSettings
from bench.harness.targets import Verdict, judge

Progress = Callable[[Case, Run], object]


@dataclass(frozen=True)
class CaseResult:
    case: Case
    settings: CaseSettings
    runs: Sequence[Run]
    verdicts: Sequence[Verdict]


def run_table(
    table: Table, cases: Sequence[Case], settings: TableSettings, folder: Path, progress: Progress
) -> list[CaseResult]:
    """Run the cases; `folder` is created for temporary files and removed afterwards."""
    folder.mkdir(parents=True)
    try:
        with ExitStack() as stack:
            services = Services(table.services, folder, stack)
            return [_run_case(table, case, settings, folder, services, progress) for case in cases]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Services:
    """Started when a side first needs them, stopped when the table is done."""

    known: Mapping[str, Service]
    folder: Path
    stack: ExitStack
    started: dict[str, Any] = field(default_factory=dict)
    pids: dict[str, list[int]] = field(default_factory=dict)

    def get(self, names: Sequence[str]) -> tuple[dict[str, Any], list[int]]:
        for name in names:
            if name not in self.started:
                self._start(name)
        return {name: self.started[name] for name in names}, [pid for name in names for pid in self.pids[name]]

    def _start(self, name: str) -> None:
        before = set(process_tree(os.getpid()))
        self.started[name] = self.stack.enter_context(self.known[name](self.folder))
        self.pids[name] = [process.pid for process in process_tree(os.getpid()) if process not in before]


def _run_case(
    table: Table, case: Case, settings: TableSettings, folder: Path, services: Services, progress: Progress
) -> CaseResult:
    own = settings.cases.get(case.name, CaseSettings())
    runs: list[Run] = []
    for number in range(settings.warmups + settings.repeats):
        for side in case.sides:
            if any(run.error for run in runs if run.side == side):
                continue
            run = run_side(table, case, side, settings, folder, services, number)
            runs.append(run)
            progress(case, run)
    return CaseResult(case, own, runs, judge(case.name, list(case.sides), runs, own.targets, own.also))


def run_side(
    table: Table,
    case: Case,
    side: str,
    settings: TableSettings,
    folder: Path,
    services: Services,
    number: int,
    root: Path = ROOT,
) -> Run:
    """One run of a side of the checkout in `root`; a failure is part of the run."""
    own = settings.cases.get(case.name, CaseSettings())
    place = folder / f"{case.name}-{side}-{number}"
    place.mkdir()
    warmup = number < settings.warmups
    try:
        addresses, pids = services.get(case.sides[side].needs)
        work = Work({**own.workload, **case.sides[side].settings}, place, addresses)
        start = command(table.name, case, side)
        os.sync()  # or this side would pay for the unwritten pages of the previous one
        answer = execute(start, work, folder / f"{place.name}-output", settings.timeout, case, pids, root)
    except Exception as error:
        # Any error affects this side only: a missing peer must not hide the other figures.
        text = str(error) if isinstance(error, SideFailed) else f"{type(error).__name__}: {error}"
        return Run(side, number, warmup, error=text)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    metrics = {**metrics_of(answer.outcome), **answer.usage}
    return Run(side, number, warmup, metrics, curve_of(answer.outcome))
