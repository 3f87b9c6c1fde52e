"""The Spark writer's round: it is killed, and goes on from its checkpoint, beside a producer and upkeep that die too.

In the end both outputs are what one undisturbed run gives: the copy has every input row once, and the counts of each
key rise to what a batch counts.
"""

from __future__ import annotations

import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.log.embedded_scenario import TOPICS, create_topics
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, Findings
from tests.faults.log.verify_embedded import check_folder
from tests.faults.log.worker import SETTINGS
from tests.faults.log.worker_pool import (
    Kill,
    KillPlan,
    WorkerPool,
    WorkerSpec,
    end_session,
    start_worker,
    worker_slots,
)

from headrace.contracts import TopicSpec
from headrace.log.embedded import EmbeddedLog

# The others die seldom and stay behind: Spark needs the processors to get on.
WORKERS = (
    WorkerSpec("spark", longest=4.0),
    WorkerSpec("producer", 20.0, points=(), behind=True),
    WorkerSpec("upkeep", 20.0, points=(), behind=True),
)
DRAIN = 180  # seconds in which the rest must be written
OUTPUTS = {"copied": TopicSpec(partitions=2), "counted": TopicSpec(partitions=2)}


def run_scenario(seed: int, kills: int, beat: Callable[[Kill], None]) -> tuple[list[Kill], Findings]:
    """Kill the Spark writer so many times; what else dies meanwhile is counted as well."""
    with tempfile.TemporaryDirectory(prefix="headrace-faults-") as name:
        folder, notes = Path(name) / "data", Path(name) / "notes"
        with EmbeddedLog(folder, SETTINGS) as log:
            create_topics(log, {**TOPICS, **OUTPUTS})
        crew = WorkerPool(worker_slots(WORKERS, f"{seed}.spark"), str(folder), notes)
        found = Findings()
        _run(crew, kills, beat)
        for failure in crew.failures:
            found.add(DAMAGE, failure)
        if not found.violations:
            _drain(folder, notes, found)
        found.join(check_folder(folder, notes))
        with EmbeddedLog(folder, SETTINGS) as log:
            check_outputs(log, found)
        return crew.kills, found


def _run(crew: WorkerPool, kills: int, beat: Callable[[Kill], None]) -> None:
    def enough(so_far: Sequence[Kill]) -> bool:
        return sum(kill.role == "spark" for kill in so_far) >= kills

    try:
        crew.run(enough, lambda kill: beat(kill) if kill.role == "spark" else None)
    finally:
        crew.halt(lambda kill: None)


def _drain(folder: Path, notes: Path, found: Findings) -> None:
    """An undisturbed life, to the end of the input."""
    life = start_worker("spark", "0.drain", notes, str(folder), KillPlan())
    try:
        if life.process.wait(DRAIN):
            found.add(DAMAGE, f"the undisturbed run ended with {life.process.returncode}: {life.last_words}")
    finally:
        if life.process.poll() is None:
            life.process.send_signal(signal.SIGKILL)
        end_session(life.process.pid)


def check_outputs(log: EmbeddedLog, found: Findings) -> None:
    """Hold the outputs against the input."""
    rows = {name: _rows(log, name) for name in ("single", "copied", "counted")}
    wanted, got = (Counter(value for _, value in rows[name]) for name in ("single", "copied"))
    for value in wanted - got:
        found.add(LOST, f"{value!r} is not in the copy")
    for value in got - wanted:
        found.add(DUPLICATE, f"{value!r} is {got[value]} times in the copy")
    counted: dict[bytes, list[int]] = defaultdict(list)
    for key, value in rows["counted"]:
        counted[key].append(int(value))
    for key, total in Counter(key for key, _ in rows["single"]).items():
        if not counted[key] or counted[key][-1] != total:
            found.add(LOST, f"the last count of {key!r} is {counted[key][-1:]}, not {total}")
        if counted[key] != sorted(set(counted[key])):
            found.add(DUPLICATE, f"the counts of {key!r} do not rise: {counted[key]}")


def _rows(log: EmbeddedLog, topic: str) -> list[tuple[bytes, bytes]]:
    """Key and value of each row; those of one key in order."""
    return [
        (key, value)
        for batch in log.scan([topic], 0, log.head([topic]))
        for key, value in zip(*(batch.rows.column(c).to_pylist() for c in ("key", "value")), strict=True)
    ]
