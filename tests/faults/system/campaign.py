"""The fault campaign of a whole server: `python -m tests.faults.system.campaign --seed 0 --kills 50`.

Kills -9 a server's processes and the broker under load, and fills its disk; then holds every topic and view against
what the rows make, `headrace verify` against both, and plants a damage that it must find. Exits with 1 on any
difference, when a restart took 30 s, and when no kill landed inside a batch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table
from tests.faults.engine.verify import DIFFERS
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST
from tests.faults.log.worker_pool import count_kills
from tests.faults.system.scenario import DISK, EMBEDDED, KAFKA, PARTS, WORKERS, Result, run_scenario

KAFKA_SHARE = 0.3
FILLINGS = 2  # of the disk


def shares(kills: int, only: str | None) -> dict[str, int]:
    """How many kills each part gets. A small disk is made by mounting one, which needs root."""
    if only is not None:
        return {only: FILLINGS if only == DISK else kills}
    kafka = int(kills * KAFKA_SHARE)
    return {EMBEDDED: kills - kafka, KAFKA: kafka} | ({DISK: FILLINGS} if os.geteuid() == 0 else {})


def summary(results: Sequence[Result]) -> Table:
    """A column for each part."""
    shown = Table("", *(result.part for result in results))
    for name, told in _FACTS.items():
        shown.add_row(name, *(str(told(result)) for result in results))
    return shown


def _times(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.1f}, max {max(seconds):.1f}" if seconds else ""


_FACTS: Mapping[str, Callable[[Result], object]] = {
    "kills": lambda result: len(result.kills),
    "inside a batch": lambda result: result.inside,
    "rows acknowledged": lambda result: result.found.facts,
    "rows unknown": lambda result: result.unknown,
    "results compared": lambda result: result.found.rows,
    **{
        kind: partial(lambda kind, result: result.found.count(kind), kind)
        for kind in (LOST, DUPLICATE, DIFFERS, DAMAGE)
    },
    "seconds until it serves": lambda result: _times(result.restarts),
    "seconds until all goes on": lambda result: _times(result.recoveries),
    "seconds in all": lambda result: round(result.seconds),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.system.campaign", description="kill -9, then compare all"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the rows, and who dies when")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--only", choices=(*PARTS, WORKERS), help="one part only")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, markup=False)
    results: list[Result] = []
    for part, kills in shares(given.kills, given.only).items():
        console.print(f"{part}: {kills} kills, seed {given.seed}")
        results.append(result := run_scenario(part, given.seed, kills, console.print))
        console.print(summary([result]))
        console.print(f"{part}: told {dict(result.told)}")
        for violation in result.found.violations[:20]:
            console.print(f"{part}: {violation}", style="red")
    console.print(count_kills({r.part: r.kills for r in results}), summary(results))
    if given.only is None and len(results) < len(PARTS):
        console.print("a full disk was left out: only root can mount a small one", style="yellow")
    inside = any(result.inside for result in results)
    if not inside:
        console.print("no kill landed inside a batch", style="red")
    return 0 if inside and all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
