"""Runs the chain inside Spark's stateful operator (see `stateful_processor`), over a key group's records in order.

The operator is keyed by key group and runs with time mode None: time is input, in the form of ticks. All state of a key
group is in one map of buckets (see `state`), of which a batch reads and writes what it touches. The output consists of
rows of topics (the sink's, and the dead-letter topic's), and one report for each key group and batch: the number of
records, when the next tick is due, and the number of state entries.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.contracts import dead_letter_topic
from headrace.engine.io.row_payloads import rows_payload
from headrace.engine.record.batch_time import batch_time_of
from headrace.engine.record.result_writer import ResultWriter
from headrace.engine.record.results import Results, merge_changes
from headrace.engine.record.shuffle.partitioner import Numbers, plan_assigner
from headrace.engine.record.shuffle.payloads import ArrivedRecords, read_payloads
from headrace.engine.record.state import KeyGroupState
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.engine.spark.state_client import MapStateStorage
from headrace.engine.task_report import TaskReport
from headrace.faultpoints import reach
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.rules import optimize
from headrace.plan.steps import Context, Store

OUTPUT_SCHEMA = pa.schema([("topic", pa.string()), ("payload", pa.binary())])
OUTPUT_SPARK_SCHEMA = "topic string, payload binary"
"""Rows for a topic; where `topic` is null, the payload is a report in JSON."""


Output = tuple[str | None, bytes]
"""A topic and rows for it; without a topic, a report."""
Finish = Callable[[list[Output]], list[Output]]
"""Post-processes a task's results before they are returned."""


def unchanged(results: list[Output]) -> list[Output]:
    return results


def run_key_group(
    spec: RecordTaskSpec, finish: Finish, state: Any, key_group: int, frames: list[Any]
) -> pa.RecordBatch:
    """Runs a key group's batch, as Spark passes it; `state` is the key group's map."""
    with gc_paused():
        results = _run_batch(spec, finish, MapStateStorage(state), key_group, frames)
    return _output(results)


def _run_batch(
    spec: RecordTaskSpec, finish: Finish, storage: MapStateStorage, key_group: int, frames: list[Any]
) -> list[Output]:
    arrived = read_payloads([payload for frame in frames for payload in frame["payload"]], spec)
    report, state = TaskReport(key_group), KeyGroupState(storage, key_group=key_group, touches=len(arrived.items))
    out = run_records(spec, arrived, state.store, report, batch_time_of(frames[0]))
    state.save()
    report.entries = state.entries
    state.close()
    reach("operator.ran")
    reach("operator.saved")
    return [*finish(out), (None, report.packed())]


def run_stateless(
    spec: RecordTaskSpec, finish: Finish = unchanged
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Runs a stateless query: its records need not be grouped, so each batch of them is processed as it comes."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = TaskReport(0)
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                with gc_paused():
                    results = run_records(
                        spec, read_payloads([payload], spec), lambda name: {}, report, batch_time_of(batch)
                    )
                yield _output(finish(results))
        yield _output([(None, report.packed())])

    return run


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses Python's cyclic garbage collector.

    Records and state are a great many small objects without cycles, and scanning all of them repeatedly took more time
    than everything else. So callers release them before the end, when the collector is enabled again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _output(rows: Sequence[Output]) -> pa.RecordBatch:
    topics, payloads = [topic for topic, _ in rows], [payload for _, payload in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(topics, pa.string()), pa.array(payloads, pa.binary())], schema=OUTPUT_SCHEMA
    )


# -- a key group's batch ---------------------------------------------------------------------------------------------


def run_records(
    spec: RecordTaskSpec,
    arrived: ArrivedRecords,
    store: Callable[[str], Store],
    report: TaskReport,
    at: int | None = None,
) -> list[Output]:
    """Runs records through the chain, and fills the report; `at` is the time of their batch."""
    plan, dead, results, clocks = spec.plan, list[RawRecord](), Results(), ChainClocks(store)
    context = Context(clocks.store, lambda problem: dead.append(report.dead_letter(problem, plan)), now=lambda: at)
    columns = {layout.topic: layout.names for layout in spec.layouts if layout.names is not None}
    pipe = Pipeline(_optimized(spec), context, rules=(), columns=columns, take=results.add)
    for now, start, end in _runs(spec, arrived):
        if now is not None:
            pipe.tick(now)
        pipe.run_runs(arrived.runs(start, end))
    _count(report, spec, arrived, clocks)
    report.deadline = pipe.chain.deadline()
    payloads = _writer(spec).write(
        merge_changes(results, plan.sink.relation) if spec.merges else results, context.report
    )
    report.written += sum(count for count, _ in payloads)
    results.entries.clear()  # the pipeline references them, and itself in cycles
    out: list[Output] = [(plan.sink.topic, rows) for _, rows in payloads]
    return [*out, (dead_letter_topic(plan.sink.topic), rows_payload(dead))] if dead else out


@lru_cache(64)
def _optimized(spec: RecordTaskSpec) -> Query:
    """Optimized once in a worker: that takes longer than all else that a chain needs before its first record."""
    return optimize(spec.plan)


@lru_cache(64)
def _writer(spec: RecordTaskSpec) -> ResultWriter:
    """Cached across batches: it remembers the bytes of keys."""
    return ResultWriter(spec.plan.sink, spec.target)


RecordRun = tuple[int | None, int, int]
"""The new stream time, if the chain must be given one, and the range of records that follow."""


def _runs(spec: RecordTaskSpec, arrived: ArrivedRecords) -> Iterator[RecordRun]:
    """Records in order, split where the chain must be given the time: at a tick, or before a row that is late."""
    set_times = {int(place): int(time) for place, time in zip(*_late(spec, arrived), strict=True)}
    ticks = set(arrived.places(spec.ticks).tolist())
    ends = [*sorted({*set_times, *ticks}), len(arrived.items)]
    yield None, 0, ends[0]
    for cut, following in pairwise(ends):
        is_tick = cut in ticks
        yield int(arrived.times[cut]) if is_tick else set_times[cut], cut + is_tick, following
    if arrived.stream.last is not None:
        yield arrived.stream.last, len(arrived.items), len(arrived.items)


def _late(spec: RecordTaskSpec, arrived: ArrivedRecords) -> tuple[Numbers, Numbers]:
    """Positions of rows that are late because records of other key groups have advanced the time, and that time."""
    lateness = plan_assigner(spec).lateness if spec.key_groups > 1 else None
    if lateness is None or arrived.stream.last is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    now = arrived.stream.before(arrived.sequences)
    own = [source.timestamp is not None for source in spec.plan.sources]
    # If a column holds the time of rows, it is not known here: set the stream time before each of them.
    late = np.flatnonzero(now > -(1 << 61) if any(own) else now >= arrived.times + lateness)
    return late, now[late]


class ChainClocks:
    """The clocks among a chain's stores: the stream time of its steps, which not every record may advance."""

    def __init__(self, stores: Callable[[str], Store]) -> None:
        self._stores = stores
        self._clock_stores: list[Store] = []

    def store(self, name: str) -> Store:
        store = self._stores(name)
        if name.rpartition("/")[2] == "clock":
            self._clock_stores.append(store)
        return store

    def latest(self, times: Numbers) -> int | None:
        """The latest time of the clocks; where no step has a clock, the latest of these times."""
        if not self._clock_stores:
            return int(times.max()) if len(times) else None
        return max((clock["now"] for clock in self._clock_stores if "now" in clock), default=None)


def _count(report: TaskReport, spec: RecordTaskSpec, arrived: ArrivedRecords, clocks: ChainClocks) -> None:
    """Counts records; ticks do not count, since they are internal."""
    own = np.delete(arrived.times, arrived.places(spec.ticks))
    report.records += len(own)
    latest = clocks.latest(own)
    if latest is not None:
        report.time = max(latest, -1 if report.time is None else report.time)
