"""The engine's fault campaign: `python -m tests.faults.engine.campaign --seed 0 --kills 100 [--only embedded|kafka]`.

Kills -9 drivers, Python workers and brokers under a job with aggregates and all joins, and holds its outputs against
an undisturbed run and the batch answer. Exits with 1 on any difference, and when no kill landed inside a batch.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from tests.faults.engine.scenario import Result, run_scenario
from tests.faults.engine.verify import DIFFERS
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST
from tests.faults.log.worker_pool import Kill, count_kills

PARTS = ("embedded", "kafka")
KAFKA_SHARE = 0.4


def shares(kills: int, only: str | None) -> dict[str, int]:
    """How many kills each log gets."""
    if only is not None:
        return {only: kills}
    kafka = int(kills * KAFKA_SHARE)
    return {"embedded": kills - kafka, "kafka": kafka}


def summary(results: Sequence[Result]) -> Table:
    kinds = (LOST, DUPLICATE, DIFFERS, DAMAGE)
    shown = Table("log", "kills", "inside", "records fed", "records written", *kinds, "errors told", "seconds")
    for r in results:
        counts = (len(r.kills), r.inside, r.found.facts, r.found.rows, *map(r.found.count, kinds), len(r.told))
        shown.add_row(r.part, *map(str, counts), f"{r.seconds:.0f}")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.engine.campaign", description="kill -9, then compare outputs"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the records, and who dies when")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", choices=PARTS, help="one log only")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, markup=False)
    results: list[Result] = []
    for part, kills in shares(given.kills, given.only).items():
        console.print(f"{part}: {kills} kills, seed {given.seed}")
        results.append(result := run_scenario(part, given.seed, kills, _counted(console, kills), batch=True))
        console.print(summary([result]))  # the other part takes long
        _tell(console, result)
    console.print(count_kills({r.part: r.kills for r in results}), summary(results))
    return 0 if all(result.good for result in results) else 1


def _tell(console: Console, result: Result) -> None:
    for text, times in Counter(result.told).most_common(5):
        console.print(f"{result.part}: {times} times told: {text}")
    for violation in result.found.violations[:20]:
        console.print(f"{result.part}: {violation}", style="red")


def _counted(console: Console, kills: int):
    numbers = iter(range(1, sys.maxsize))

    def beat(kill: Kill) -> None:
        console.print(f"{next(numbers):4} of {kills}  {kill.role} {kill.moment}, inside {kill.operation or 'nothing'}")

    return beat


if __name__ == "__main__":
    sys.exit(main())
