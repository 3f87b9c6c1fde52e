"""Whether a query has written what it should have: the batch answer beside its topic, and the topic beside its view.

    verdict = verify(log, settings, subject)
    verdict.equal, verdict.differences, verdict.notes

The query may run meanwhile: it is compared as of one batch that is done. It is not asked, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Log
from headrace.control.aside import output_into
from headrace.control.mirror import Mirrored, mirrored
from headrace.control.subjects import Subject
from headrace.control.ticks import is_timed
from headrace.engine import answer
from headrace.engine.checkpoint import Checkpoint, Manifest, ticks_topic
from headrace.engine.comparison import Compared, Difference, compared
from headrace.engine.native.choice import NATIVE
from headrace.engine.query import topics_read
from headrace.engine.realtime.choice import REALTIME
from headrace.engine.record.target import target_of
from headrace.engine.record.work import Work, work_for
from headrace.engine.session import SparkSession, spark_session
from headrace.engine.standing import standing
from headrace.errors import NotVerifiable, PlanChanged, UnknownQuery
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.contract import Event
from headrace.plan.chain.records import BOUNDS, Decoder, Raw
from headrace.plan.expressions import Call, Expression, Named
from headrace.plan.layout import Layout, layouts_of
from headrace.plan.nodes import AggregateCall, Arrival, Emit, Kind, Query, Relation, Sink, Source, walk
from headrace.plan.rewriting import draws
from headrace.plan.triggers import PerBatch, Results
from headrace.settings import Settings
from headrace.views.stores import store_of

SHOWN = 20
"""Differences that are told one by one."""

Shown = Mapping[str, Any] | None
"""Columns by name, or nothing."""


@dataclass(frozen=True)
class Differing:
    """A key of the topic, or of the view, with what should be there and what is."""

    where: str
    key: Shown
    expected: Shown
    found: Shown
    times: int = 1


@dataclass(frozen=True)
class Verdict:
    """Of a query as of a batch. `rows` are keys of a table, or records of a stream, that should be there."""

    query: str
    sink: str
    kind: str
    batch: int
    rows: int
    counts: Mapping[str, int]
    """Of what differs in the topic: missing, more, other."""
    view_rows: int | None
    """None if there is no view."""
    view_differing: int
    differences: tuple[Differing, ...]
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.counts and not self.view_differing


def verify(
    log: Log, settings: Settings, subject: Subject, *, spark: SparkSession | None = None, show: int = SHOWN
) -> Verdict:
    """Refused, with the reason, where nothing that is computed later can be the same."""
    query, checkpoint = subject.query, Checkpoint(subject.folder)
    manifest = _begun(subject, checkpoint)
    if reasons := list(against(query, manifest.way)):
        raise NotVerifiable(
            f"the results of query {query.id} cannot be computed again: {'; '.join(reasons)}",
            fix="docs/guide/operating.md tells what can be",
        )
    batch, found = _in_topic(log, settings, subject, checkpoint, manifest, spark, show)
    compacted = [name for name in manifest.topics if log.topic(name).spec.compact]
    notes = tuple(_notes(subject, manifest, compacted))
    return _verdict(subject, batch, found, _in_view(log, settings, subject, show), notes)


def _begun(subject: Subject, checkpoint: Checkpoint) -> Manifest:
    query, manifest = subject.query, checkpoint.manifest
    if manifest is None:
        raise UnknownQuery(f"query {query.id} has not begun", where=str(checkpoint.folder), fix="let it run first")
    if manifest.text != query.text:
        raise PlanChanged(
            f"query {query.id} has run another statement than this one",
            where=str(checkpoint.folder),
            fix="give the script as it was when it ran last",
        )
    return manifest


# -- what can be compared -------------------------------------------------------------------------------------------


def against(query: Query, way: str) -> Iterator[str]:
    """Why the results of a query cannot be computed again."""
    nodes = list(walk(query.sink))
    if way == REALTIME:
        yield "in real time it is delivered at least once, so results may be there several times"
    if any(_asks_time(vars(node)) for node in nodes):
        yield "it asks what time it is, which is another time now"
    elif draws(query.sink) and is_timed(query):
        yield "it draws by chance when time has passed"
    if any(isinstance(node, Arrival) for node in nodes):
        yield "it goes by the time of arrival, which is not in the log"
    if any(isinstance(node, Emit) and _by_batches(node) for node in nodes):
        yield "its results are those of single batches, and how these were cut is not kept"


def _by_batches(node: Emit) -> bool:
    return isinstance(node.trigger, PerBatch) and node.results is Results.DISCARDING


def _asks_time(value: Any) -> bool:
    """Whether a function that tells the time of day is called somewhere in a node's own fields."""
    if isinstance(value, Call) and value.name.upper() in ("UNIX_TIMESTAMP", "UNIX_DATE") and not value.arguments:
        return True
    if isinstance(value, dict | tuple):
        return any(map(_asks_time, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Expression | Named | AggregateCall) and _asks_time(vars(value))


# -- the topic ------------------------------------------------------------------------------------------------------


def _in_topic(
    log: Log,
    settings: Settings,
    subject: Subject,
    checkpoint: Checkpoint,
    manifest: Manifest,
    spark: SparkSession | None,
    show: int,
) -> tuple[int, Compared]:
    query, topics = subject.query, topics_read(subject.query, manifest)
    taken = standing(log, query, checkpoint, manifest, topics)
    sink = log.topic(query.sink.topic)
    folder = str(log.folder.resolve()) if isinstance(log, EmbeddedLog) else None
    keeps = bool(manifest.state) or len(query.sources) > 1
    reading = answer.Reading(settings, folder, taken.ends, by_place=manifest.way == NATIVE and not keeps)
    spark = spark or _session(settings)
    is_table = query.sink.relation.kind is Kind.TABLE
    work, apart = _work(log, subject, manifest, topics), not (keeps or is_table)
    wanted = answer.answered(spark, reading, taken.read, work, sink, apart=apart)
    there = answer.found(spark, reading, taken.written, sink)
    return taken.batch, compared(wanted, there, table=is_table, only_missing=subject.shared, show=show)


def _session(settings: Settings) -> SparkSession:
    with output_into(settings.data / "logs" / "spark.log"):
        return spark_session(settings, "headrace verify")


def _work(log: Log, subject: Subject, manifest: Manifest, topics: Sequence[str]) -> Work:
    """The query on one page, and every change of it."""
    query = subject.query
    ticks, every = ticks_topic(manifest.run), layouts_of(query, [log.topic(name) for name in topics])
    layouts = tuple(layout for layout in every if not layout.opened)
    if ticks not in topics:
        layouts = (*layouts, Layout(ticks))
    target = target_of(query.sink, log.topic(query.sink.topic))
    return work_for(query, layouts, ticks, setup=subject.setup, target=target)


# -- the view -------------------------------------------------------------------------------------------------------


def _in_view(log: Log, settings: Settings, subject: Subject, show: int) -> Mirrored | None:
    source = subject.source
    if source is None or source.kind is not Kind.TABLE:
        return None
    with closing(store_of(settings)) as store:
        return mirrored(log, store, source, show)


# -- in words -------------------------------------------------------------------------------------------------------


def _verdict(subject: Subject, batch: int, found: Compared, view: Mirrored | None, notes: tuple[str, ...]) -> Verdict:
    sink = subject.query.sink
    shown = [*(_differing(sink, one) for one in found.shown), *_view_differing(sink.relation, view)]
    return Verdict(
        subject.query.id,
        sink.name,
        str(sink.relation.kind),
        batch,
        found.rows,
        found.counts,
        None if view is None else view.rows,
        0 if view is None else view.count,
        tuple(shown),
        notes,
    )


def _notes(subject: Subject, manifest: Manifest, compacted: Sequence[str]) -> Iterator[str]:
    """What must be known to judge differences."""
    if manifest.since:
        yield f"before batch {manifest.since} the query had another statement: what that wrote may differ"
    if compacted:
        yield f"topic {', '.join(compacted)} is compacted: records that were replaced there are not read again"
    if subject.shared:
        yield "other queries write into the topic, too: what is there beyond this one's results was not judged"


def _differing(sink: Sink, one: Difference) -> Differing:
    expected, found = (_shown(sink, one.key, side) for side in (one.expected, one.found))
    key = (expected or found or ({}, {}))[0]
    return Differing("topic", key, expected and expected[1], found and found[1], one.times)


def _shown(sink: Sink, key: bytes | None, side: tuple[bytes | None, int] | None) -> tuple[Shown, Shown] | None:
    if side is None:
        return None
    value, time = side
    source = Source(sink.name, sink.topic, sink.relation, sink.key_format, sink.value_format)
    event = Decoder(source).decode(Raw(key, value, time))
    if not isinstance(event, tuple):  # a topic with columns, or what no format can read
        return {"KEY": _text(key)}, {"VALUE": _text(value), "ROWTIME": time}
    return _named(sink.relation, (time, *event[1:]))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _named(relation: Relation, event: Event) -> tuple[Shown, Shown]:
    """A row's key and its other columns, by their names."""
    time, key, row = event
    names = [field.name for field in relation.key]
    values = key or ()
    shown = dict(zip(names, values, strict=False))
    if relation.window and values:
        shown |= dict(zip((field.name for field in BOUNDS), values[-1], strict=True))
    columns = {field.name: value for field, value in zip(relation.value, row or (), strict=False)}
    return shown, {**columns, "ROWTIME": time}


def _view_differing(relation: Relation, view: Mirrored | None) -> Iterator[Differing]:
    for wanted, there in view.differing if view else ():
        expected, found = (side and _named(relation, side) for side in (wanted, there))
        yield Differing("view", (expected or found or ({}, {}))[0], expected and expected[1], found and found[1])
