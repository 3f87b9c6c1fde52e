"""Workers that are killed again and again: each life has a fate, drawn from the seed before it begins.

A fate is either a *point* in the code (the worker kills itself there, see `headrace.faultpoints`) or a *delay* after
which we kill it from outside. What it was inside of at that moment is read from its pulse.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.table import Table
from tests.faults.log.activity import ActivityPage

from headrace.faultpoints import VARIABLE

RANDOM = "at random"
_PATIENCE = 15.0  # seconds for a point to be reached before the worker is killed anyway
_START = 90.0  # seconds for a worker to begin
_TICK = 0.005
_WORDS = 4000  # characters of a worker's last words that are kept from either end: Java's traces are long
_BEHIND = ("nice", "-n", "15")

_COMMIT = ("commit.placed", "commit.committed", "commit.synced")
_MAIL = ("mail.posted", "mail.taken", "mail.answering")
POINTS: Mapping[str, Sequence[str]] = {
    "producer": (*_COMMIT, *_MAIL),
    "bulk": ("extent.written", *_COMMIT, *_MAIL),
    "writer": ("extent.written", *_COMMIT),
    "consumer": ("group.placed", "group.committed"),
    "queue": _COMMIT,
    "upkeep": ("extent.written", "rewrite.encoded", "rewrite.swapped", "purge.deleted", "purge.unlinked"),
    "spark": ("sink.committed", "sink.staged", *_COMMIT),
}
# How often a point may be passed before it kills; others are passed rarely.
_OFTEN = {"commit.placed": 40, "commit.committed": 40, "commit.synced": 40, "extent.written": 20, "group.placed": 20}


@dataclass(frozen=True)
class WorkerSpec:
    """A place in a crew: what is done there, where one dies, and how long one lives at most otherwise."""

    role: str
    longest: float = 0.8
    points: Sequence[str] | None = None  # without: all points of the role
    behind: bool = False  # works with what the others leave of the processors

    def fates(self, chance: random.Random) -> Iterator[KillPlan]:
        """Every point in turn, first as they are written down, then in any order; between two, a kill at random."""
        points = list(POINTS[self.role] if self.points is None else self.points)
        while True:
            for point in points:
                yield KillPlan(point, chance.randint(1, _OFTEN.get(point, 4)))
                yield KillPlan(delay=chance.uniform(0, self.longest))
            if not points:
                yield KillPlan(delay=chance.uniform(0, self.longest))
            chance.shuffle(points)


@dataclass(frozen=True)
class KillPlan:
    """How a life ends."""

    point: str = RANDOM
    count: int = 1
    delay: float = 0.0


@dataclass(frozen=True)
class Kill:
    """One kill -9: who, at which point (or at random), and the operation it landed in (empty: between two)."""

    role: str
    moment: str
    operation: str


def count_kills(kills: Mapping[str, Sequence[Kill]]) -> Table:
    """Who died when, by the parts of a campaign."""
    shown = Table("part", "who", "moment", "inside", "kills")
    for part, died in kills.items():
        fields = Counter((kill.role, kill.moment, kill.operation or "nothing") for kill in died)
        for death, times in sorted(fields.items()):
            shown.add_row(part, *death, str(times))
        shown.add_section()
    return shown


@dataclass
class WorkerProcess:
    """A worker from start to death."""

    role: str
    name: str
    notes: Path
    fate: KillPlan
    process: subprocess.Popen[bytes]
    pulse: ActivityPage
    since: float = field(default_factory=time.monotonic)
    working_since: float | None = None

    @property
    def mark(self) -> Path:
        return self.notes / f"{self.name}.mark"

    @property
    def last_words(self) -> str:
        said = (self.notes / f"{self.name}.err").read_text(errors="replace")
        return said if len(said) < 2 * _WORDS else f"{said[:_WORDS]}\n...\n{said[-_WORDS:]}"

    def due(self) -> bool:
        """Whether it is time to kill it from outside."""
        now = time.monotonic()
        if self.working_since is None:
            self.working_since = now if self.pulse.at_work else None
            return now - self.since > _START
        return now - self.working_since > (self.fate.delay if self.fate.point == RANDOM else _PATIENCE)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        end_session(self.process.pid)

    def death(self) -> Kill | None:
        """How it died; None if it was not killed but ended by itself, which no worker should."""
        if self.process.returncode != -signal.SIGKILL:
            return None
        if self.mark.exists():
            return Kill(self.role, self.mark.read_text(), self.pulse.operation or "starting")
        return Kill(self.role, RANDOM, self.pulse.operation)


def start_worker(
    role: str, name: str, notes: Path, place: str, fate: KillPlan, *, behind: bool = False
) -> WorkerProcess:
    """Start a worker in a session of its own, so that whatever it starts can be found after its death."""
    environment = dict(os.environ)
    if fate.point != RANDOM:
        environment[VARIABLE] = f"{fate.point}:{fate.count}:{notes / name}.mark"
    with open(notes / f"{name}.err", "wb") as errors:
        process = subprocess.Popen(
            [*_BEHIND * behind, sys.executable, "-m", "tests.faults.log.worker", role, name, str(notes), place],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
    return WorkerProcess(role, name, notes, fate, process, ActivityPage(notes / f"{name}.pulse"))


def end_session(leader: int) -> None:
    """End what a dead worker left running (Spark's JVM and its Python workers): a machine's crash takes all."""
    left = [process for process in psutil.process_iter() if _session(process.pid) == leader]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=10)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


class WorkerSlot:
    """A place in the crew that is filled again after each death; it goes on in the next crew where it stopped."""

    def __init__(self, berth: WorkerSpec, name: str) -> None:
        self.role = berth.role
        self._behind = berth.behind
        self.name = name
        self._fates = berth.fates(random.Random(name))
        self._numbers = itertools.count()
        self.life: WorkerProcess | None = None

    def fill(self, notes: Path, place: str) -> None:
        name = f"{self.name}.{next(self._numbers)}"
        self.life = start_worker(self.role, name, notes, place, next(self._fates), behind=self._behind)


def worker_slots(cast: Sequence[WorkerSpec], name: str) -> list[WorkerSlot]:
    """A slot for each berth; the name draws their fates."""
    return [WorkerSlot(berth, f"{name}.{berth.role}{i}") for i, berth in enumerate(cast)]


class WorkerPool:
    """Workers on one log. `run` kills until enough were killed; `halt` kills all at once."""

    def __init__(self, slots: Sequence[WorkerSlot], place: str, notes: Path) -> None:
        notes.mkdir(parents=True, exist_ok=True)
        self._place, self._notes = place, notes
        self.slots = slots
        self.kills: list[Kill] = []
        self.failures: list[str] = []

    def run(self, enough: Callable[[Sequence[Kill]], bool], beat: Callable[[Kill], None]) -> None:
        """Kill whose time has come until there were enough; a worker that fails by itself ends it at once."""
        while not enough(self.kills) and not self.failures:
            self._tend(beat, kill=True)

    def gather(self, beat: Callable[[Kill], None]) -> None:
        """Let all be at work at the same time; nobody is killed meanwhile but those who reach their point."""
        while not all(slot.life and slot.life.pulse.at_work for slot in self.slots) and not self.failures:
            self._tend(beat, kill=False)

    def _tend(self, beat: Callable[[Kill], None], *, kill: bool) -> None:
        for slot in self.slots:
            if slot.life is None:
                slot.fill(self._notes, self._place)
            elif slot.life.process.poll() is not None or (kill and slot.life.due()):
                self._record_death(slot, beat)
        time.sleep(_TICK)

    def halt(self, beat: Callable[[Kill], None]) -> None:
        """Everything dies at the same moment, as when the machine is switched off."""
        for slot in self.slots:
            if slot.life is not None and slot.life.process.poll() is None:
                slot.life.process.kill()
        for slot in self.slots:
            if slot.life is not None:
                self._record_death(slot, beat)

    def _record_death(self, slot: WorkerSlot, beat: Callable[[Kill], None]) -> None:
        life, slot.life = slot.life, None
        assert life is not None
        life.kill()
        kill = life.death()
        if kill is None:
            self.failures.append(f"{life.name} ended with {life.process.returncode}: {life.last_words}")
            return
        self.kills.append(kill)
        beat(kill)
