"""The engine's rounds: the job runs on a log that is fed meanwhile, and is killed again and again in every way.

Each life has a fate, drawn from the seed: a *point* in the code, a *moment* at random (also while it starts), its
*workers* one after another, or the *broker* beneath it. After the last an undisturbed life does what is left.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import psutil
from tests.faults.engine import driver_process, job
from tests.faults.engine.driver_process import BATCH, BETWEEN, STARTING, DriverProcess
from tests.faults.engine.verify import check
from tests.faults.log import kafka_scenario
from tests.faults.log.verify import DAMAGE, Findings
from tests.faults.log.worker_pool import RANDOM, Kill

from headrace.contracts import Log
from headrace.log.kafka import KafkaLog, jars
from headrace.log.kafka.local_cluster import LocalCluster
from headrace.settings import Settings

Beat = Callable[[Kill], None]

# Where the driver dies, and where a worker does; both ways of writing have a point on either side of each commit.
POINTS = {
    "embedded": ("sink.committed", "sink.staged", "operator.saved", "commit.synced", "operator.ran", "commit.placed"),
    "kafka": ("sink.committed", "kafka.committed", "sink.staged", "kafka.produced", "operator.saved", "operator.ran"),
}
AHEAD = 2 * job.BATCH_ROWS  # records that are there when a life begins
EVERY = 0.25  # seconds between two records that are fed then
WORKERS = 4  # that are killed in one life
PATIENCE = 45.0  # seconds for a point to be reached, before the driver is killed where it is
START = 240.0  # seconds for a life to have its queries at work
DRAIN = 600.0  # seconds in which an undisturbed life must do the rest
TRIES = 3  # lives that may be needed for a kill
REVIVAL = 8.0  # seconds, at most, that a driver goes on when a worker has died at a point
DOWN = 2.0  # seconds that a broker is away
_DYING = 1.0  # seconds in which a driver that has said so is dead


@dataclass(frozen=True)
class KillPlan:
    kind: str
    point: str = ""
    delay: float = 0.0
    together: bool = True
    """Whether Spark's process dies in the same moment as the driver."""
    retries: bool = False
    """Whether Spark gives a task whose worker died to another one; else the query fails, and is started again."""


def kill_plans(log: str, seed: object) -> Iterator[KillPlan]:
    """Every point in turn, and between two of them another kind of death."""
    chance = random.Random(f"fates.{log}.{seed}")
    points = list(POINTS[log])
    others = ["workers", "moment", "broker" if log == "kafka" else "workers", "starting"]
    while True:
        for point, kind in zip(points, others * 2, strict=False):
            yield KillPlan("point", f"{point}:{chance.randint(1, 4)}")
            longest = 10.0 if kind == "starting" else 4.0
            yield KillPlan(kind, "", chance.uniform(0, longest), chance.random() < 0.5, chance.random() < 0.5)
        chance.shuffle(points)
        chance.shuffle(others)


@dataclass
class Scenario:
    """A log, what was fed to it, and who died on it."""

    given: Settings
    log: Log
    notes: Path
    records: Iterator[job.Fed]
    beat: Beat
    cluster: LocalCluster | None = None
    fed: list[job.Fed] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Errors with which drivers ended by themselves, or began again: what a user would read."""
    _names: Iterator[int] = field(default_factory=count)
    _lives: list[DriverProcess] = field(default_factory=list)
    _fed_at: float = 0.0

    def live(self, fate: KillPlan, chance: random.Random) -> None:
        """One life, to its end."""
        life = self._begin("killed", fate.point, "local[2,4]" if fate.retries else "local[2]")
        try:
            if self._await(life, fate):
                _ENDS[fate.kind](self, life, fate, chance)
            self._end(life, fate)
        finally:
            if fate.together:
                life.clear()

    def _begin(self, until: str, point: str = "", master: str = "local[2]") -> DriverProcess:
        name = f"life-{next(self._names)}"
        given = self.given.replace(spark_master=master)
        life = driver_process.start_driver(name, given, self.notes, until, point)
        self._lives.append(life)
        return life

    def _await(self, life: DriverProcess, fate: KillPlan) -> bool:
        """Wait for the queries to run, or for a death before that."""
        given_up = life.since + (fate.delay if fate.kind == "starting" else START)
        while not life.working and not life.ended and time.monotonic() < given_up:
            time.sleep(0.02)
        return life.working and not life.ended

    def feed(self, life: DriverProcess, until: float) -> None:
        """Go on feeding while the life lasts, so that there are batches to die in."""
        while not life.ended and time.monotonic() < until:
            if time.monotonic() - self._fed_at > EVERY:
                self.add(1)
                self._fed_at = time.monotonic()
            time.sleep(0.02)

    def add(self, number: int) -> None:
        for record in islice(self.records, number):
            self.fed.append(record)
            job.feed(self.log, *record)

    def note(self, who: str, moment: str, inside: str) -> None:
        kill = Kill(who, moment, inside)
        self.kills.append(kill)
        self.beat(kill)

    def _end(self, life: DriverProcess, fate: KillPlan) -> None:
        """The driver is killed, if nothing else has ended it."""
        inside = driver_process.current_operation(self.given) if life.working else STARTING
        if life.kill():
            self.note("driver", RANDOM, inside)
        elif life.mark:
            self.note("driver", life.mark, inside or STARTING)
        else:
            self.failures.append(
                f"{life.name} ({fate}) ended with {life.process.returncode}: {life.last_words[-2000:]}"
            )
        self.told += [
            line for line in life.last_words.splitlines() if line.startswith(("query-failed", "unexpected-failure"))
        ]

    def drain(self) -> None:
        """An undisturbed life to the end of the input."""
        life = self._begin("idle")
        try:
            if code := life.process.wait(DRAIN):
                self.failures.append(f"the undisturbed life ended with {code}: {life.last_words[-2000:]}")
        except subprocess.TimeoutExpired:
            self.failures.append(f"the undisturbed life was not done in {DRAIN:g} s: {life.last_words[-2000:]}")
        finally:
            life.clear()

    def clear(self) -> None:
        for life in self._lives:
            life.clear()


# -- deaths ---------------------------------------------------------------------------------------------------------


def _at_point(scenario: Scenario, life: DriverProcess, fate: KillPlan, chance: random.Random) -> None:
    """A worker may be the one at the point: then the driver goes on with another, until it is killed too."""
    del fate
    given_up = time.monotonic() + PATIENCE
    while not life.mark and not life.ended and time.monotonic() < given_up:
        scenario.feed(life, time.monotonic() + EVERY)
    if life.mark and life.outlives(_DYING):
        scenario.note("worker", life.mark, driver_process.current_operation(scenario.given) or STARTING)
        scenario.feed(life, time.monotonic() + chance.uniform(0, REVIVAL))


def _at_random(scenario: Scenario, life: DriverProcess, fate: KillPlan, chance: random.Random) -> None:
    del chance
    scenario.feed(life, time.monotonic() + fate.delay)


def _workers(scenario: Scenario, life: DriverProcess, fate: KillPlan, chance: random.Random) -> None:
    """Workers die one by one; the driver starts anew what failed by it."""
    for _ in range(WORKERS):
        scenario.feed(life, time.monotonic() + chance.uniform(0.2, 2.0 + fate.delay))
        chosen = sorted(life.workers(), key=lambda process: process.pid)
        if chosen and not life.ended:
            victim = chance.choice(chosen)
            what, inside = driver_process.kind_of(victim), driver_process.current_operation(scenario.given)
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
                scenario.note(what, "retried" if fate.retries else RANDOM, inside)


def _broker(scenario: Scenario, life: DriverProcess, fate: KillPlan, chance: random.Random) -> None:
    """The only broker goes and comes back beneath the running job."""
    del chance
    assert scenario.cluster is not None
    scenario.feed(life, time.monotonic() + fate.delay)
    inside = driver_process.current_operation(scenario.given)
    scenario.cluster.kill(1)
    scenario.note("broker", RANDOM, inside)
    time.sleep(DOWN)
    scenario.cluster.restart(1)
    scenario.feed(life, time.monotonic() + fate.delay + 2)


_ENDS: dict[str, Callable[[Scenario, DriverProcess, KillPlan, random.Random], None]] = {
    "point": _at_point,
    "moment": _at_random,
    "starting": _at_random,
    "workers": _workers,
    "broker": _broker,
}


# -- rounds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    part: str
    kills: Sequence[Kill]
    found: Findings
    told: Sequence[str]
    seconds: float

    @property
    def inside(self) -> int:
        return sum(kill.operation in (BATCH, BETWEEN) for kill in self.kills)

    @property
    def good(self) -> bool:
        return not self.found.violations and self.inside > 0


def run_scenario(
    part: str, seed: int, kills: int, beat: Beat, chosen: Iterator[KillPlan] | None = None, *, batch: bool
) -> Result:
    """Kill so many on one kind of log, and hold the outputs against what they should be."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-faults-")))
        cluster = _cluster(folder, stack) if part == "kafka" else None
        given = job.settings(folder / "data", cluster.bootstrap if cluster else "")
        log = stack.enter_context(job.open_log(given))
        job.create_topics(log)
        (folder / "notes").mkdir()
        scenario = Scenario(given, log, folder / "notes", job.records(seed), beat, cluster)
        stack.callback(scenario.clear)
        _kill(scenario, kills, chosen or kill_plans(part, seed), random.Random(f"lives.{part}.{seed}"))
        scenario.add(AHEAD)
        if not scenario.failures:
            scenario.drain()
        found = _verified(scenario, batch=batch)
    return Result(part, scenario.kills, found, scenario.told, time.monotonic() - began)


def _kill(scenario: Scenario, kills: int, chosen: Iterator[KillPlan], chance: random.Random) -> None:
    for lives, fate in enumerate(chosen):
        if len(scenario.kills) >= kills or scenario.failures:
            return
        if lives > TRIES * kills:
            scenario.failures.append(f"{lives} lives, and only {len(scenario.kills)} kills: {scenario.told[-3:]}")
        scenario.add(AHEAD)
        scenario.live(fate, chance)


def _cluster(folder: Path, stack: contextlib.ExitStack) -> LocalCluster:
    jars.fetch(Settings())
    return stack.enter_context(LocalCluster.start(folder / "kafka"))


def _verified(scenario: Scenario, *, batch: bool) -> Findings:
    from headrace.engine.spark.session import spark_session

    if isinstance(scenario.log, KafkaLog):
        kafka_scenario._await_settled(scenario.log)
    spark = spark_session(job.settings(scenario.given.storage.data)) if batch and not scenario.failures else None
    found = Findings() if scenario.failures else check(scenario.log, scenario.given, scenario.fed, spark)
    for failure in scenario.failures:
        found.add(DAMAGE, failure)
    return found
