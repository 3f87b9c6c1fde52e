"""`python -m bench.ab --base COMMIT TABLE:CASE ...`: is this checkout slower than another commit?

Runs our side of each case from both checkouts in turn, A B B A, so that noise of the machine affects both, and prints
the median ratio of their rates. Both use the same virtual environment and the same services. A checkout runs its own
benchmark code with its own settings. The exit code is 1 if the ratio of a case is below the tolerance.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from bench import RESULTS, ROOT
from bench.harness import settings as table_settings
from bench.harness.case import OURS, Case, Table
from bench.harness.process import SideFailed
from bench.harness.results import figure
from bench.harness.run import Services, run_side
from bench.tables import table


@dataclass(frozen=True)
class Pair:
    """The rates of one round."""

    base: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.base


def main(
    cases: Annotated[list[str], typer.Argument(metavar="TABLE:CASE...", help="For example chain:filter.")],
    base: Annotated[str, typer.Option(help="The commit to compare with.")],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each case.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="Small workloads, to check that everything works.")] = False,
    tolerance: Annotated[float, typer.Option(help="The lowest ratio that counts as not slower.")] = 0.95,
) -> None:
    """Compare this checkout with the commit BASE."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    results = RichTable(
        "case", "base", "this checkout", "ratio (median)", "ratios of the rounds", title=f"compared with {base}"
    )
    slower = False
    with ExitStack() as stack:
        checkout = _checkout(base, stack)
        for name in cases:
            pairs = _compare(name, checkout, rounds, quick, console)
            ratio = statistics.median(pair.ratio for pair in pairs)
            slower |= ratio < tolerance
            unit = _case(name)[1].unit
            results.add_row(
                name,
                figure("rate", statistics.median(pair.base for pair in pairs), unit),
                figure("rate", statistics.median(pair.ours for pair in pairs), unit),
                f"{ratio:.3f}",
                " ".join(f"{pair.ratio:.2f}" for pair in pairs),
            )
    console.print(results)
    raise typer.Exit(1 if slower else 0)


def _checkout(commit: str, stack: ExitStack) -> Path:
    """A work tree of the commit, removed afterwards."""
    folder = ROOT / "build" / "ab" / f"{commit[:12]}-{os.getpid()}"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(folder), commit], cwd=ROOT, check=True)
    stack.callback(subprocess.run, ["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=False)
    return folder


def _case(name: str) -> tuple[Table, Case]:
    table_name, _, case = name.partition(":")
    return table(table_name), table(table_name).case(case)


def _compare(name: str, base: Path, rounds: int, quick: bool, console: Console) -> list[Pair]:
    selected, case = _case(name)
    folder = RESULTS / f"tmp-{os.getpid()}"
    folder.mkdir(parents=True)
    pairs: list[Pair] = []
    try:
        with ExitStack() as stack:
            services = Services(selected.services, folder, stack)
            for number in range(rounds):
                order: Sequence[Path] = (base, ROOT) if number % 2 == 0 else (ROOT, base)
                rates = {root: _rate(selected, case, root, services, folder, number, quick) for root in order}
                pairs.append(Pair(rates[base], rates[ROOT]))
                console.print(f"[dim]{name} round {number + 1}: {pairs[-1].ratio:.3f}[/dim]", highlight=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return pairs


def _rate(selected: Table, case: Case, root: Path, services: Services, folder: Path, number: int, quick: bool) -> float:
    """One run of our side from a checkout, with that checkout's own settings of the case."""
    file = root / "bench" / "settings" / f"{selected.name}.toml"
    loaded = table_settings.load(file, selected, quick=quick, only=case.name)
    run = run_side(selected, case, OURS, loaded, folder, services, number, root)
    if run.error:
        raise SideFailed(f"{case.name} of {root.name}: {run.error}")
    return run.metrics["rate"]


if __name__ == "__main__":
    typer.run(main)
