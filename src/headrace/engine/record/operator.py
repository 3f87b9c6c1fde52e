"""The chain inside Spark's stateful operator (see `processor`): a page's records run through it in order of arrival.

The operator is keyed by page and runs with time mode None: time is input, as ticks are. All state of a page lies in one
map of buckets (see `buckets`), of which a batch reads and writes what it touches. What comes out are rows of topics
(the sink's, and the dead letters'), and one report for each page and batch: how many records, when the next tick is
due, how much state there is.
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
from headrace.engine.record.buckets import PageState
from headrace.engine.record.packing import Arrived, packed_rows, unpacked
from headrace.engine.record.placing import Numbers, plan_pages
from headrace.engine.record.results import Results, merged
from headrace.engine.record.shelf import MapShelf
from headrace.engine.record.times import batch_time
from headrace.engine.record.work import Work
from headrace.engine.record.writing import Writer
from headrace.engine.reports import Report
from headrace.faultpoints import reach
from headrace.plan.chain.contract import Context, Store
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Raw

OUTPUT = pa.schema([("topic", pa.string()), ("payload", pa.binary())])
OUTPUT_SPARK = "topic string, payload binary"
"""Rows for a topic; where `topic` is null, the payload is a report in JSON."""


Output = tuple[str | None, bytes]
"""A topic and rows for it; without a topic, a report."""
Finish = Callable[[list[Output]], list[Output]]
"""What a task does with its results before they leave it."""


def as_it_is(results: list[Output]) -> list[Output]:
    return results


def run_page(work: Work, finish: Finish, state: Any, page: int, frames: list[Any]) -> pa.RecordBatch:
    """A page's batch, as Spark gives it; `state` is the page's map."""
    with uncollected():
        results = _run(work, finish, MapShelf(state), page, frames)
    return _output(results)


def _run(work: Work, finish: Finish, shelf: MapShelf, page: int, frames: list[Any]) -> list[Output]:
    arrived = unpacked([payload for frame in frames for payload in frame["payload"]], work)
    report, state = Report(page), PageState(shelf, page=page, touches=len(arrived.items))
    out = run_records(work, arrived, state.store, report, batch_time(frames[0]))
    state.save()
    report.entries = state.entries
    state.close()
    reach("operator.ran")
    reach("operator.saved")
    return [*finish(out), (None, report.packed())]


def run_stateless(
    work: Work, finish: Finish = as_it_is
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For a query that keeps nothing: no page needs its records together, each batch of them goes on as it comes."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = Report(0)
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                with uncollected():
                    results = run_records(work, unpacked([payload], work), lambda name: {}, report, batch_time(batch))
                yield _output(finish(results))
        yield _output([(None, report.packed())])

    return run


@contextmanager
def uncollected() -> Iterator[None]:
    """Meanwhile Python does not look for garbage in rings.

    Records and state are a great many small objects and no rings, and looking through all of them again and again took
    more time than all else. So who calls lets go of them before the end, from where on it is looked for again.
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
    return pa.RecordBatch.from_arrays([pa.array(topics, pa.string()), pa.array(payloads, pa.binary())], schema=OUTPUT)


# -- a page's batch -------------------------------------------------------------------------------------------------


def run_records(
    work: Work, arrived: Arrived, store: Callable[[str], Store], report: Report, at: int | None = None
) -> list[Output]:
    """Run records through the chain, and note in the report what became of them; `at` is the time of their batch."""
    plan, dead, results, clocks = work.plan, list[Raw](), Results(), Clocks(store)
    context = Context(clocks.store, lambda problem: dead.append(report.letter(problem, plan)), now=lambda: at)
    columns = {layout.topic: layout.names for layout in work.layouts if layout.names is not None}
    pipe = Pipe(plan, context, columns=columns, take=results.add)
    for now, start, end in _turns(work, arrived):
        if now is not None:
            pipe.tick(now)
        pipe.run_runs(arrived.runs(start, end))
    _count(report, work, arrived, clocks)
    report.deadline = pipe.chain.deadline()
    written = _writer(work).write(merged(results, plan.sink.relation) if work.merges else results, context.report)
    report.written += sum(count for count, _ in written)
    results.entries.clear()  # the pipe holds them, and itself in rings
    out: list[Output] = [(plan.sink.topic, rows) for _, rows in written]
    return [*out, (dead_letter_topic(plan.sink.topic), packed_rows(dead))] if dead else out


@lru_cache(64)
def _writer(work: Work) -> Writer:
    """Kept from batch to batch: it remembers the bytes of keys."""
    return Writer(work.plan.sink, work.target)


Turn = tuple[int | None, int, int]
"""What time it is, if that must be said, and which records come then."""


def _turns(work: Work, arrived: Arrived) -> Iterator[Turn]:
    """Records in order, cut where time must be told: by a tick, or before a row that is late for the whole stream."""
    told = {int(place): int(time) for place, time in zip(*_late(work, arrived), strict=True)}
    ticks = set(arrived.places(work.ticks).tolist())
    ends = [*sorted({*told, *ticks}), len(arrived.items)]
    yield None, 0, ends[0]
    for cut, following in pairwise(ends):
        is_tick = cut in ticks
        yield int(arrived.times[cut]) if is_tick else told[cut], cut + is_tick, following
    if arrived.stream.last is not None:
        yield arrived.stream.last, len(arrived.items), len(arrived.items)


def _late(work: Work, arrived: Arrived) -> tuple[Numbers, Numbers]:
    """Places of rows for which it matters that others have moved the time, and to what."""
    lateness = plan_pages(work).lateness if work.pages > 1 else None
    if lateness is None or arrived.stream.last is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    now = arrived.stream.before(arrived.sequences)
    own = [source.timestamp is not None for source in work.plan.sources]
    # The time of a row that a column tells is not known here: say what time it is before each of them.
    late = np.flatnonzero(now > -(1 << 61) if any(own) else now >= arrived.times + lateness)
    return late, now[late]


class Clocks:
    """The clocks among a chain's stores: what time it is for its steps, which not every record may move."""

    def __init__(self, stores: Callable[[str], Store]) -> None:
        self._stores = stores
        self._found: list[Store] = []

    def store(self, name: str) -> Store:
        found = self._stores(name)
        if name.rpartition("/")[2] == "clock":
            self._found.append(found)
        return found

    def latest(self, times: Numbers) -> int | None:
        """Where no step has a clock, the latest of these times."""
        if not self._found:
            return int(times.max()) if len(times) else None
        return max((clock["now"] for clock in self._found if "now" in clock), default=None)


def _count(report: Report, work: Work, arrived: Arrived, clocks: Clocks) -> None:
    """Ticks are not counted: they are ours."""
    own = np.delete(arrived.times, arrived.places(work.ticks))
    report.records += len(own)
    latest = clocks.latest(own)
    if latest is not None:
        report.time = max(latest, -1 if report.time is None else report.time)
