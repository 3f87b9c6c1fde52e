"""The topics that workers meet on, and rounds: a log, a crew on it, kills, and a verification after each act."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.log.verify import DAMAGE, Findings
from tests.faults.log.verify_embedded import check_folder
from tests.faults.log.worker import SETTINGS
from tests.faults.log.worker_pool import Kill, WorkerPool, WorkerSpec, worker_slots

from headrace.contracts import Log, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Size

ROLES = ("producer", "producer", "bulk", "writer", "consumer", "consumer", "queue", "upkeep")
WORKERS = [WorkerSpec(role) for role in ROLES]
ACT = 25  # kills between two verifications
ACTS = 2  # in one folder, before a new one is begun

TOPICS: Mapping[str, TopicSpec] = {
    "single": TopicSpec(partitions=2),
    "jobs": TopicSpec(partitions=2),
    "brief": TopicSpec(retention_bytes=Size(64 << 10)),
    "bulk-a": TopicSpec(partitions=2),
    "bulk-b": TopicSpec(partitions=2),
    "exact": TopicSpec(partitions=2, retention_bytes=Size(100 << 10), archive=True),
    "keyed": TopicSpec(compact=True),
}
Beat = Callable[[Kill], None]


def create_topics(log: Log, topics: Mapping[str, TopicSpec] = TOPICS) -> None:
    for name, spec in topics.items():
        log.create_topic(name, spec)


def run_scenario(seed: int, kills: int, beat: Beat) -> tuple[list[Kill], Findings]:
    """Kill so many workers of the embedded log, in as many folders as it takes."""
    done: list[Kill] = []
    found = Findings()
    places = worker_slots(WORKERS, str(seed))
    while len(done) < kills and not found.violations:
        with tempfile.TemporaryDirectory(prefix="headrace-faults-") as folder:
            crew = WorkerPool(places, f"{folder}/data", Path(folder) / "notes")
            with EmbeddedLog(Path(folder) / "data", SETTINGS) as log:
                create_topics(log)
            for _ in range(ACTS):
                if len(done) + len(crew.kills) < kills and not found.violations:
                    run_phase(crew, min(ACT, kills - len(done) - len(crew.kills)), Path(folder), beat, found)
            done += crew.kills
    return done, found


def run_phase(crew: WorkerPool, kills: int, folder: Path, beat: Beat, found: Findings) -> None:
    """Kill so many, the last of them all at once, and verify what is left."""
    before, together = len(crew.kills), len(crew.slots)
    try:
        crew.run(lambda so_far: len(so_far) - before >= max(kills - together, 1), beat)
    finally:
        crew.halt(beat)
    for failure in crew.failures:
        found.add(DAMAGE, failure)
    found.join(check_folder(folder / "data", folder / "notes"))
