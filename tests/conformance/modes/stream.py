"""Cases of the KSQL corpus as programs of streaming queries on an embedded log, beside the same in memory.

A case's records come in pieces, and between two of them its program may be stopped and started again, so that state
goes through the checkpoint: how is decided by the seed and the case's id, whatever else is in the sample. What was
written must be what memory wrote, record by record; order counts as far as it is promised (see `orders`).
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
from tests.conformance import corpus_functions
from tests.conformance.modes import memory
from tests.conformance.modes.input_schedule import schedule_for
from tests.conformance.modes.memory import Case, Outcome
from tests.conformance.modes.output_order import Order, Row, difference, order_of

from headrace.clock import ManualClock
from headrace.contracts import Append, TopicSpec
from headrace.control.program import Program
from headrace.engine.query import ensure_topic
from headrace.engine.spark.session import spark_session
from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings, Size
from headrace.testing.memory_log import MemoryRecord
from headrace.testing.world import World

LONGEST = 240
"""Seconds after which a case is given up."""

LANES = 2
"""Cases side by side: a start waits for Python processes more than it works."""

TOO_BUSY, STARTS = "failed to connect back", 5
"""Spark gives a new Python process ten seconds. On a busy machine that is too short, and one starts again."""

_starting = threading.Lock()
"""A program that starts its queries turns the process's output aside for a moment: one after another."""


@dataclass(frozen=True)
class Result:
    """What came of a case, and where it is not what came of it in memory."""

    outcome: Outcome
    differences: Sequence[str] = ()


class Lane:
    """A log for one case after another. There are few: a process cannot open very many."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings.of(
            storage_data=folder,
            spark_driver_memory=Size(1 << 30),
            storage_maintenance_interval=timedelta(0),
            query_execution_mode="record",
            query_emit="per-record",
        )
        self.log = EmbeddedLog(folder, self.settings)

    def clear(self) -> None:
        for topic in self.log.topics():
            self.log.delete_topic(topic.name)


class StreamCase:
    """A case whose queries run as a program."""

    def __init__(self, case: Case, seed: int, lane: Lane) -> None:
        self.planned = memory.plan(case)
        memory.give(self.planned)
        self.world: World = self.planned.world
        self.sinks = list(dict.fromkeys(running.query.sink.topic for running in self.world.running.values()))
        self._course = schedule_for(self.planned, seed)
        self._lane = lane
        self._settings = lane.settings.replace(query_key_groups=self._course.key_groups)

    def run(self) -> Outcome:
        memory.conclude(self.planned, self._process)
        return self.planned.outcome

    def _process(self) -> None:
        try:
            self._make_topics()
            self._stream()
            for topic in self.sinks:
                for row in _rows(self._lane.log, topic):
                    self.world.topics.append(topic, *row, origin="program")
        finally:
            self._lane.clear()

    def _make_topics(self) -> None:
        """All with few partitions, whatever the statements say: cases compare in order."""
        for topic in {*self.world.topics} - {*self.sinks}:
            ensure_topic(self._lane.log, topic, TopicSpec(partitions=self._course.partitions))
        for topic in self.sinks:
            ensure_topic(self._lane.log, topic)

    def _stream(self) -> None:
        pieces, stop = list(self._course.pieces), self._course.stop
        for part in [pieces] if stop is None else [pieces[: stop + 1], pieces[stop + 1 :]]:
            starts = 1
            while part or starts:
                try:
                    self._play(part)
                    starts = 0
                except HeadraceError as failure:
                    if TOO_BUSY not in failure.what or starts == STARTS:
                        raise
                    starts += 1

    def _play(self, pieces: list[Sequence[MemoryRecord]]) -> None:
        """Start the program, and let it go through the pieces, of which those that are in the log are taken away."""
        statements = (f"{text.rstrip().rstrip(';')};" for text in self.planned.case["statements"])
        self._append(pieces)
        with self._program() as program:
            with _starting:
                program.execute("\n".join(statements))
            program.wait(until_idle=True, on_poll=_limit())
            while pieces:
                self._append(pieces)
                program.wait(until_idle=True, on_poll=_limit())

    def _append(self, pieces: list[Sequence[MemoryRecord]]) -> None:
        """The next piece, record by record: in one append, topics and partitions would follow each other."""
        for entry in pieces.pop(0) if pieces else ():
            self._lane.log.append([Append(entry.topic, _row(entry))])

    def _program(self) -> Program:
        # The clock stands still, as in the runner of the cases: time is the records'.
        program = Program(
            self._lane.log,
            self._settings,
            name=self.planned.case["id"],
            properties=self.planned.case.get("properties"),
            clock=ManualClock(),
            setup=corpus_functions.install,
        )
        program.catalog.partitions.clear()
        memory.make_topics(program.catalog, self.planned.case)
        return program

    def differences(self) -> list[str]:
        """Where the topics are not as memory writes them; those that are get memory's order, which cases want."""
        wanted = memory.plan(self.planned.case)
        memory.conclude(wanted, lambda: (memory.give(wanted), wanted.world.drain()))
        mine, theirs = self.planned.outcome, wanted.outcome
        if mine["runtime_error"] or theirs["runtime_error"]:
            return _failures(mine["runtime_error"], theirs["runtime_error"])
        found: list[str] = []
        for topic in self.sinks:
            what = difference(_written(self.world, topic), _written(wanted.world, topic), self._order(topic))
            if what is None:
                mine["topics"][topic] = theirs["topics"][topic]
            else:
                found.append(f"{topic}, {what}")
        return found

    def _order(self, topic: str) -> Order:
        writers = [running.query for running in self.world.running.values() if running.query.sink.topic == topic]
        return order_of(writers, self._course.key_groups, self._course.partitions)

    def __str__(self) -> str:
        sizes, stop = [len(piece) for piece in self._course.pieces], self._course.stop
        stopped = "" if stop is None else f", stopped after piece {stop + 1}"
        parts = f"{self._course.key_groups} key groups, {self._course.partitions} partitions"
        name = "{id} {file}, {name}".format_map(self.planned.case)
        return f"{name}: pieces of {sizes}{stopped}, {parts}"


def _failures(mine: Outcome | None, theirs: Outcome | None) -> list[str]:
    codes = [None if failure is None else failure["code"] for failure in (mine, theirs)]
    return [] if codes[0] == codes[1] else [f"fails with {mine}, in memory with {theirs}"]


def _written(world: World, topic: str) -> list[Row]:
    return [(entry.key, entry.value, entry.timestamp, entry.headers) for entry in world.topics.written(topic)]


def _rows(log: EmbeddedLog, topic: str) -> list[Row]:
    """What a topic of one partition holds."""
    found: list[Row] = []
    ((start, end),) = log.bounds(topic).values()
    while start < end:
        batch = log.read(topic, 0, start)
        found += [(s.key, s.value, s.timestamp, s.headers) for s in batch.records()]
        start = batch.next_offset
    return found


def _row(entry: MemoryRecord) -> pa.RecordBatch:
    record = Record(entry.value, entry.key, entry.headers, occurred_at=entry.timestamp)  # type: ignore[arg-type]
    return from_records([record])


def _limit() -> Callable[[], None]:
    end = time.monotonic() + LONGEST

    def look() -> None:
        if time.monotonic() > end:
            raise TimeoutError(f"not idle after {LONGEST} seconds")

    return look


# -- all cases ------------------------------------------------------------------------------------------------------


def run(cases: Sequence[Case], seed: int, lanes: int = LANES) -> list[Result]:
    """Run cases, some side by side, in the process's Spark session."""
    if not cases:
        return []
    with tempfile.TemporaryDirectory() as folder, corpus_functions.installed():
        free: SimpleQueue[Lane] = SimpleQueue()
        opened = [Lane(Path(folder, str(number))) for number in range(min(lanes, len(cases)))]
        for lane in opened:
            free.put(lane)
        spark_session(opened[0].settings, "conformance")
        try:
            with ThreadPoolExecutor(len(opened)) as pool:
                return list(pool.map(lambda case: _run(case, seed, free), cases))
        finally:
            for lane in opened:
                lane.log.close()


def _run(case: Case, seed: int, free: SimpleQueue[Lane]) -> Result:
    lane = free.get()
    try:
        streaming = StreamCase(case, seed, lane)
        outcome = streaming.run()
        told = [f"{streaming}\n    {what}" for what in streaming.differences()]
        return Result(outcome, told)
    except Exception as error:
        return Result(memory.crashed(case, error), [f"{case['id']} breaks its runner: {error!r}"])
    finally:
        free.put(lane)
