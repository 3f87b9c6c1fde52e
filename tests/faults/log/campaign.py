"""The fault campaign of the log: `python -m tests.faults.log.campaign --seed 0 --kills 200 --kafka-kills 30`.

Kills -9 workers of the log at chosen and at random moments and holds what is left against what was promised.
Exits with 1 on any broken promise, and when no kill landed inside an operation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tests.faults.log import embedded_scenario, kafka_scenario, spark_scenario
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, TORN, Findings
from tests.faults.log.worker_pool import RANDOM, Kill

Beat = Callable[[Kill], None]
Part = Callable[[int, int, Beat], tuple[list[Kill], Findings]]

PARTS: dict[str, Part] = {
    "log": embedded_scenario.run_scenario,
    "spark": spark_scenario.run_scenario,
    "kafka": kafka_scenario.run_scenario,
}
SPARK_SHARE = 20  # of so many kills one is Spark's: each of its starts takes some ten seconds


@dataclass(frozen=True)
class Result:
    """What a part did and found."""

    part: str
    kills: Sequence[Kill]
    found: Findings
    seconds: float

    @property
    def inside(self) -> int:
        return sum(bool(kill.operation) for kill in self.kills)

    @property
    def good(self) -> bool:
        return not self.found.violations and self.inside > 0


def run(part: str, seed: int, kills: int, beat: Beat = lambda kill: None) -> Result:
    """One part of the campaign."""
    began = time.monotonic()
    done, found = PARTS[part](seed, kills, beat)
    return Result(part, done, found, time.monotonic() - began)


def shares(kills: int, kafka_kills: int, only: str | None) -> dict[str, int]:
    """How many kills each part gets."""
    spark = max(kills // SPARK_SHARE, 1) if only in (None, "spark") else 0
    wanted = {"log": kills - (spark if only is None else 0), "spark": spark, "kafka": kafka_kills}
    if only is not None:
        wanted[only] = kafka_kills if only == "kafka" else kills
    return {part: count for part, count in wanted.items() if count > 0 and only in (None, part)}


def table(results: Sequence[Result]) -> Table:
    shown = Table("part", "who", "moment", "kills", "landed inside")
    for result in results:
        groups = Counter((kill.role, kill.moment) for kill in result.kills)
        inside = Counter((kill.role, kill.moment) for kill in result.kills if kill.operation)
        for (role, moment), count in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] == RANDOM)):
            shown.add_row(result.part, role, moment, str(count), str(inside[role, moment]))
        shown.add_section()
    return shown


def summary(results: Sequence[Result]) -> Table:
    shown = Table("part", "kills", "inside", "rows read", "facts", LOST, "duplicates", TORN, DAMAGE, "seconds")
    for r in results:
        kinds = (str(r.found.count(kind)) for kind in (LOST, DUPLICATE, TORN, DAMAGE))
        counts = (len(r.kills), r.inside, r.found.rows, r.found.facts)
        shown.add_row(r.part, *map(str, counts), *kinds, f"{r.seconds:.0f}")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.log.campaign", description="kill -9, then look what is left"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws which worker dies when")
    parser.add_argument("--kills", type=int, default=200, help="on the embedded log, Spark's included")
    parser.add_argument("--kafka-kills", type=int, default=0, help="on Kafka: clients and brokers")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    given = parser.parse_args(arguments)
    console = Console()
    console.print(f"seed {given.seed}")
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for part, kills in shares(given.kills, given.kafka_kills, given.only).items():
            task = progress.add_task(part, total=kills)
            results.append(run(part, given.seed, kills, lambda kill, task=task: progress.advance(task)))
    console.print(table(results), summary(results))
    for result in results:
        for violation in result.found.violations[:20]:
            console.print(f"{result.part}: {violation}", style="red", markup=False, highlight=False)
        if not result.inside:
            console.print(f"{result.part}: no kill landed inside an operation", style="red")
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
