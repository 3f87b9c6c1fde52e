"""The system's rounds: a server under load, of which something is killed again and again, or whose disk is full.

Who dies when is drawn from the seed: all its processes at once (also while it starts), the server alone, the driver of
Spark, its Java process, Python workers, and on Kafka the broker. A server that is gone is started again on the same
folder; of everything else it must recover by itself.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.engine.driver_process import BATCH, BETWEEN, STARTING, current_operation
from tests.faults.log.verify import DAMAGE, Findings
from tests.faults.log.worker_pool import RANDOM, Kill
from tests.faults.system.job import PARTITIONS, SCHEMA, SCRIPT, TABLES, TOPIC
from tests.faults.system.load import Load
from tests.faults.system.server import GOES, LOST, Server
from tests.faults.system.verify import QUERIES, check, check_planted, check_verdicts, plant_cell, plant_record, verdicts

from headrace.errors import DiskFull
from headrace.log.kafka import jars
from headrace.log.kafka.local_cluster import LocalCluster
from headrace.settings import Settings

EMBEDDED, KAFKA, DISK = PARTS = ("embedded", "kafka", "disk")
WORKERS = "workers"
"""A part of its own: only Python workers and Spark's Java process die, and the server starts them again by itself."""
RESTART = 30.0  # seconds from the start of a server until it must serve
RECOVERY = 300.0  # seconds in which all tables must reflect a row that was acknowledged before a kill
LONGEST = {WORKERS: 4.0}  # seconds between two kills, at most
_LONGEST = 8.0
ALL_AGAIN = 0.3  # after so many kills all queries are awaited; else the next one may come while they are being started
STARTS = 12.0  # seconds, at most, after which a server that is being started is killed
DOWN = 4.0  # seconds that a broker is away, at most
DISK_BYTES = 192 << 20
_SETTINGS = {
    "spark_driver_memory": "512MB",
    "query_max_batch_rows": "10000",
    "query_key_groups": "2",
    "storage_maintenance_interval": "5s",
}
_PAUSE = 0.1
Beat = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    part: str
    kills: Sequence[Kill]
    found: Findings
    restarts: Sequence[float]
    """Seconds from a start to serving."""
    recoveries: Sequence[float]
    """Seconds from a kill, or a start, until all tables reflect what was acknowledged before."""
    told: Mapping[str, int]
    unknown: int
    seconds: float

    @property
    def inside(self) -> int:
        return sum(kill.operation in (BATCH, BETWEEN) for kill in self.kills)

    @property
    def good(self) -> bool:
        return not self.found.violations


@dataclass
class Scenario:
    """A server under load, and who died of it."""

    given: Settings
    server: Server
    load: Load
    chance: random.Random
    beat: Beat
    longest: float = _LONGEST
    cluster: LocalCluster | None = None
    kills: list[Kill] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    found: Findings = field(default_factory=Findings)

    def kill(self, who: str) -> None:
        """One kill, and on from there."""
        time.sleep(self.chance.uniform(0, self.longest))
        _DEATHS[who](self)
        self.beat(f"{len(self.kills):3}  {who:8} inside {self.kills[-1].operation or 'nothing'}")
        if self.chance.random() < ALL_AGAIN:
            self.recover()

    def note(self, who: str, moment: str = RANDOM) -> None:
        """To be called before it dies, while there is something to be seen."""
        self.kills.append(Kill(who, moment, moment if moment == STARTING else current_operation(self.given, "server")))

    def start(self) -> None:
        self.server.start()
        self.restarts.append(took := self.server.await_serving())
        if took > RESTART:
            self.found.add(DAMAGE, f"the server served after {took:.1f} s, not within {RESTART:g} s")
        self.beat(f"     serves after {took:.1f} s")

    def recover(self) -> None:
        """Wait until all tables reflect what is acknowledged now."""
        begun, token = time.monotonic(), self.load.token
        for table in TABLES:
            while not self._reflects(table, token):
                if time.monotonic() - begun > RECOVERY:
                    raise RuntimeError(f"{table} did not reflect {token} in {RECOVERY:g} s: {self._status()}")
                time.sleep(_PAUSE)
        self.recoveries.append(took := time.monotonic() - begun)
        self.beat(f"     all goes on after {took:.1f} s")

    def _reflects(self, table: str, token: str) -> bool:
        with contextlib.suppress(*LOST):
            return self.server.ask("GET", f"/api/v1/views/{table}/rows?limit=1&wait=5s&token={token}")[0] == 200
        return False

    def check_states(self) -> None:
        """Every query runs: it has been started again without a person."""
        for name, state, _, failure in (found := self._status()):
            if state != "running":
                self.found.add(DAMAGE, f"query {name} is {state}: {failure}")
        if len(found) != QUERIES:
            self.found.add(DAMAGE, f"there are {len(found)} queries, not {QUERIES}")

    def _status(self) -> list[tuple[str, str, int, object]]:
        queries = self.server.done("GET", "/api/v1/status")["queries"]
        return [(one["name"], one["state"], one["lag"], one["failure"]) for one in queries]


# -- deaths ---------------------------------------------------------------------------------------------------------


def _tree(scenario: Scenario) -> None:
    scenario.note("tree")
    scenario.server.kill_tree()
    scenario.start()


def _starting(scenario: Scenario) -> None:
    """Killed, and killed again before it is ready, or when its queries are about to be."""
    scenario.note("tree")
    scenario.server.kill_tree()
    scenario.server.start()
    time.sleep(scenario.chance.uniform(0, STARTS))
    scenario.note("tree", STARTING)
    scenario.server.kill_tree()
    scenario.start()


def _server(scenario: Scenario) -> None:
    """What is Spark's must end by itself, while the next server is there already."""
    scenario.note("server")
    left = scenario.server.kill_alone()
    scenario.start()
    _, alive = psutil.wait_procs(left, timeout=GOES)
    if alive:
        scenario.found.add(DAMAGE, f"after {GOES:g} s a killed server has left {[one.name() for one in alive]}")


def _spark(scenario: Scenario) -> None:
    _kill_one(scenario, "spark", scenario.server.spark)


def _java(scenario: Scenario) -> None:
    _kill_one(scenario, "java", scenario.server.java)


def _worker(scenario: Scenario) -> None:
    _kill_one(scenario, "worker", scenario.server.workers)


def _kill_one(scenario: Scenario, who: str, candidates: Callable[[], Sequence[psutil.Process]]) -> None:
    found: list[psutil.Process] = []
    _await(lambda: found.extend(candidates()) or bool(found), f"there is a {who} to be killed")
    scenario.note(who)
    try:
        scenario.chance.choice(sorted(found, key=lambda process: process.pid)).kill()
    except psutil.NoSuchProcess:  # it has ended by itself in this moment
        scenario.kills.pop()
        _kill_one(scenario, who, candidates)


def _broker(scenario: Scenario) -> None:
    """The only one goes and comes back."""
    assert scenario.cluster is not None
    scenario.note("broker")
    scenario.cluster.kill(1)
    time.sleep(scenario.chance.uniform(0, DOWN))
    scenario.cluster.restart(1)


def _full(scenario: Scenario) -> None:
    """On a full disk what is refused is refused with a code, and tables can be asked; no server starts on it."""
    _fill(ballast := scenario.given.storage.data / "ballast")
    _await_answers(scenario.load, DiskFull.code)
    _await_answers(scenario.load, "pulled")
    scenario.note("tree", "full disk")
    scenario.server.kill_tree()
    scenario.server.start()
    _await(lambda: scenario.server.ended or scenario.server.serves(), "a server on a full disk serves, or says why not")
    if scenario.server.ended and DiskFull.code not in scenario.server.last_words:
        raise RuntimeError(f"on a full disk the server ended with: {scenario.server.last_words}")
    ballast.unlink()
    if scenario.server.ended:
        scenario.start()
    scenario.recover()


def _await_answers(load: Load, answer: str) -> None:
    before = load.told[answer]
    _await(lambda: load.told[answer] > before + 20, f"rows and questions are answered with {answer}")


def _await(holds: Callable[[], bool], what: str, patience: float = 60.0) -> None:
    given_up = time.monotonic() + patience
    while not holds():
        if time.monotonic() > given_up:
            raise RuntimeError(f"in {patience:g} s it was not so that {what}")
        time.sleep(_PAUSE)


_DEATHS: Mapping[str, Callable[[Scenario], None]] = {
    "tree": _tree,
    "starting": _starting,
    "server": _server,
    "spark": _spark,
    "java": _java,
    "worker": _worker,
    "broker": _broker,
    "full": _full,
}
_TURNS = {
    EMBEDDED: ("tree", "server", "starting", "spark", "java", "worker", "worker", "worker"),
    KAFKA: ("tree", "server", "starting", "spark", "java", "worker", "worker", "worker", "broker", "broker", "broker"),
    DISK: ("full",),
    WORKERS: ("java", *["worker"] * 10),
}


def victims(part: str, seed: object) -> Iterator[str]:
    """Everybody in turn, and in any order."""
    chance = random.Random(f"victims.{part}.{seed}")
    turn = list(_TURNS[part])
    while True:
        chance.shuffle(turn)
        yield from turn


# -- a full disk ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own, in memory; only root may make one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(1 << 16))


# -- rounds ---------------------------------------------------------------------------------------------------------


def run_scenario(
    part: str, seed: int, kills: int, beat: Beat, chosen: Iterator[str] | None = None, *, verify: bool = True
) -> Result:
    """Kill so many, and hold everything against what it should be."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        scenario = _begun(part, seed, beat, stack)
        try:
            _disturb(scenario, kills, chosen or victims(part, seed))
            _judge(scenario, seed, verify=verify)
        except Exception as error:
            scenario.found.add(DAMAGE, f"{type(error).__name__}: {error}")
    seconds, load = time.monotonic() - began, scenario.load
    facts = (scenario.found, scenario.restarts, scenario.recoveries, load.told, len(load.unknown))
    return Result(part, scenario.kills, *facts, seconds)


def _begun(part: str, seed: int, beat: Beat, stack: contextlib.ExitStack) -> Scenario:
    """A server that serves the program."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-faults-")))
    (notes := folder / "notes").mkdir()
    cluster, settings = None, {**_SETTINGS, "query_sink_topics": "typed"}
    if part == KAFKA:
        jars.fetch(Settings())
        cluster = stack.enter_context(LocalCluster.start(folder / "kafka"))
        settings = {**_SETTINGS, "storage_log": "kafka", "kafka_bootstrap_servers": cluster.bootstrap}
    if part == DISK:
        stack.enter_context(small_disk(folder / "disk"))
    data = folder / "disk" / "data" if part == DISK else folder / "data"
    server = Server(data, notes, settings)
    stack.callback(server.clear)
    given = Settings.of(storage_data=data, storage_log=settings.get("storage_log", EMBEDDED))
    load, longest = Load(server, seed, typed=part != KAFKA), LONGEST.get(part, _LONGEST)
    scenario = Scenario(given, server, load, random.Random(f"scene.{part}.{seed}"), beat, longest, cluster)
    scenario.start()
    options = {"partitions": PARTITIONS} | ({} if part == KAFKA else {"schema": SCHEMA})
    server.done("POST", "/api/v1/topics", {"name": TOPIC, "options": options})
    server.done("POST", "/ksql", {"ksql": SCRIPT})
    return scenario


def _disturb(scenario: Scenario, kills: int, chosen: Iterator[str]) -> None:
    with scenario.load.going():
        _await(lambda: bool(scenario.load.token), "a first row is acknowledged")
        scenario.recover()
        while len(scenario.kills) < kills and not scenario.load.failures:
            scenario.kill(next(chosen))
        scenario.recover()


def _judge(scenario: Scenario, seed: int, *, verify: bool) -> None:
    server, load = scenario.server, scenario.load
    load.produce("last", 0)  # in all partitions, behind all others
    scenario.recover()
    scenario.check_states()
    check(server, load, seed, scenario.found)
    if verify:
        check_verdicts(verdicts(server), scenario.found)
        plant_record(server, typed=load.typed)
    server.down()
    if verify:
        plant_cell(server)
        check_planted(verdicts(server), scenario.found)
