"""Verifies a query's results: compares a batch recomputation with its topic, and the topic with its view.

    result = verify(log, settings, target)
    result.equal, result.differences, result.notes

The query may keep running: the comparison is as of one committed batch. The query is not involved, and nothing is
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Log
from headrace.control.queries.ticks import is_timed
from headrace.control.verify.targets import VerifyTarget
from headrace.control.verify.view import ViewComparison, compare_view
from headrace.control.workers.spark_log import redirect_output
from headrace.engine.checkpoint import Checkpoint, Manifest, ticks_topic
from headrace.engine.execution_mode import NATIVE, REALTIME
from headrace.engine.query import consumed_topics
from headrace.engine.record.sink_columns import sink_columns
from headrace.engine.record.task_spec import RecordTaskSpec, record_task_spec
from headrace.engine.spark.session import SparkSession, spark_session
from headrace.engine.verify import recompute
from headrace.engine.verify.compare import ComparisonResult, Difference, compare_results
from headrace.engine.verify.position import committed_position
from headrace.errors import NotVerifiable, PlanChanged, UnknownQuery
from headrace.log.embedded import EmbeddedLog
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.chain.records import WINDOW_BOUND_FIELDS, Decoder, RawRecord
from headrace.plan.expressions import Call, Expression, NamedExpression
from headrace.plan.nodes import AggregateCall, Emit, ProcessingTime, Query, Sink, Source, walk
from headrace.plan.relations import Kind, Relation
from headrace.plan.rewrite import calls_nondeterministic
from headrace.plan.steps import Event
from headrace.plan.triggers import PerBatch, Results
from headrace.settings import Settings
from headrace.views.stores import open_store

MAX_DIFFERENCES = 20
"""Limit of the differences that are reported one by one."""

RowValues = Mapping[str, Any] | None
"""Columns by name, or None."""


@dataclass(frozen=True)
class RowDifference:
    """A key of the topic, or of the view, with the expected row and the actual one."""

    where: str
    key: RowValues
    expected: RowValues
    found: RowValues
    times: int = 1


@dataclass(frozen=True)
class VerifyResult:
    """The result for a query as of a batch. `rows` is the expected number of a table's keys or a stream's records."""

    query: str
    sink: str
    kind: str
    batch: int
    rows: int
    counts: Mapping[str, int]
    """Number of differences in the topic by kind: missing, more, other."""
    view_rows: int | None
    """None if there is no view."""
    view_differing: int
    differences: tuple[RowDifference, ...]
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.counts and not self.view_differing


def verify(
    log: Log,
    settings: Settings,
    target: VerifyTarget,
    *,
    spark: SparkSession | None = None,
    show: int = MAX_DIFFERENCES,
) -> VerifyResult:
    """Compare a query's results with a recomputation; raises if they cannot be recomputed, with the reason."""
    query, checkpoint = target.query, Checkpoint(target.folder)
    manifest = _manifest_of(target, checkpoint)
    if reasons := list(unverifiable_reasons(query, manifest.execution_mode)):
        raise NotVerifiable(
            f"the results of query {query.id} cannot be recomputed: {'; '.join(reasons)}",
            fix="see docs/guide/operating.md for what can be verified",
        )
    batch, comparison = _compare_topic(log, settings, target, checkpoint, manifest, spark, show)
    compacted = [name for name in manifest.topics if log.topic(name).spec.compact]
    notes = tuple(_notes(target, manifest, compacted))
    return _result(target, batch, comparison, _compare_view(log, settings, target, show), notes)


def _manifest_of(target: VerifyTarget, checkpoint: Checkpoint) -> Manifest:
    query, manifest = target.query, checkpoint.manifest
    if manifest is None:
        raise UnknownQuery(
            f"query {query.id} has no checkpoint yet", where=str(checkpoint.folder), fix="start it first"
        )
    if manifest.text != query.text:
        raise PlanChanged(
            f"query {query.id} last ran a different statement",
            where=str(checkpoint.folder),
            fix="use the script as it was when it last ran",
        )
    return manifest


# -- verifiable queries ---------------------------------------------------------------------------------------------


def unverifiable_reasons(query: Query, execution_mode: str) -> Iterator[str]:
    """Why the results of a query cannot be recomputed."""
    nodes = list(walk(query.sink))
    if execution_mode == REALTIME:
        yield "realtime mode delivers at least once, so a result may appear several times"
    if any(_uses_current_time(vars(node)) for node in nodes):
        yield "it uses the current time"
    elif calls_nondeterministic(query.sink) and is_timed(query):
        yield "it uses a non-deterministic function in a timer"
    if any(isinstance(node, ProcessingTime) for node in nodes):
        yield "it uses processing time, which is not stored in the log"
    if any(isinstance(node, Emit) and _by_batches(node) for node in nodes):
        yield "its results depend on the batches, and their boundaries are not stored"


def _by_batches(node: Emit) -> bool:
    return isinstance(node.trigger, PerBatch) and node.results is Results.DISCARDING


def _uses_current_time(value: Any) -> bool:
    """Whether an expression in a node's own fields calls a function that returns the current time."""
    if isinstance(value, Call) and value.name.upper() in ("UNIX_TIMESTAMP", "UNIX_DATE") and not value.arguments:
        return True
    if isinstance(value, dict | tuple):
        return any(map(_uses_current_time, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Expression | NamedExpression | AggregateCall) and _uses_current_time(vars(value))


# -- the topic ------------------------------------------------------------------------------------------------------


def _compare_topic(
    log: Log,
    settings: Settings,
    target: VerifyTarget,
    checkpoint: Checkpoint,
    manifest: Manifest,
    spark: SparkSession | None,
    show: int,
) -> tuple[int, ComparisonResult]:
    query, topics = target.query, consumed_topics(target.query, manifest)
    position = committed_position(log, query, checkpoint, manifest, topics)
    sink = log.topic(query.sink.topic)
    folder = str(log.folder.resolve()) if isinstance(log, EmbeddedLog) else None
    is_stateful = bool(manifest.state) or len(query.sources) > 1
    reader = recompute.LogReader(
        settings, folder, position.ends, by_offset=manifest.execution_mode == NATIVE and not is_stateful
    )
    spark = spark or _session(settings)
    is_table = query.sink.relation.kind is Kind.TABLE
    task_spec, is_independent = _single_group_spec(log, target, manifest, topics), not (is_stateful or is_table)
    expected = recompute.expected_results(spark, reader, position.read, task_spec, sink, independent=is_independent)
    actual = recompute.actual_results(spark, reader, position.written, sink)
    return position.batch, compare_results(expected, actual, table=is_table, only_missing=target.shared, show=show)


def _session(settings: Settings) -> SparkSession:
    with redirect_output(settings.storage.data / "logs" / "spark.log"):
        return spark_session(settings, "headrace verify")


def _single_group_spec(log: Log, target: VerifyTarget, manifest: Manifest, topics: Sequence[str]) -> RecordTaskSpec:
    """The query with a single key group, and with every change emitted."""
    query = target.query
    ticks, every = ticks_topic(manifest.run), record_layouts(query, [log.topic(name) for name in topics])
    layouts = tuple(layout for layout in every if not layout.columnar)
    if ticks not in topics:
        layouts = (*layouts, RecordLayout(ticks))
    columns = sink_columns(query.sink, log.topic(query.sink.topic))
    return record_task_spec(query, layouts, ticks, setup=target.setup, target=columns)


# -- the view -------------------------------------------------------------------------------------------------------


def _compare_view(log: Log, settings: Settings, target: VerifyTarget, show: int) -> ViewComparison | None:
    source = target.source
    if source is None or source.kind is not Kind.TABLE:
        return None
    with closing(open_store(settings)) as store:
        return compare_view(log, store, source, show)


# -- the result -----------------------------------------------------------------------------------------------------


def _result(
    target: VerifyTarget, batch: int, comparison: ComparisonResult, view: ViewComparison | None, notes: tuple[str, ...]
) -> VerifyResult:
    sink = target.query.sink
    differences = [*(_differing(sink, one) for one in comparison.shown), *_view_differing(sink.relation, view)]
    return VerifyResult(
        target.query.id,
        sink.name,
        str(sink.relation.kind),
        batch,
        comparison.rows,
        comparison.counts,
        None if view is None else view.rows,
        0 if view is None else view.count,
        tuple(differences),
        notes,
    )


def _notes(target: VerifyTarget, manifest: Manifest, compacted: Sequence[str]) -> Iterator[str]:
    """Facts that matter for interpreting differences."""
    if manifest.since:
        yield f"before batch {manifest.since} the query ran another statement, whose results may differ"
    if compacted:
        yield f"topic {', '.join(compacted)} is compacted: replaced records cannot be read again"
    if target.shared:
        yield "other queries also write to the topic: their records were not compared"


def _differing(sink: Sink, one: Difference) -> RowDifference:
    expected, actual = (_decode(sink, one.key, side) for side in (one.expected, one.found))
    key = (expected or actual or ({}, {}))[0]
    return RowDifference("topic", key, expected and expected[1], actual and actual[1], one.times)


def _decode(sink: Sink, key: bytes | None, side: tuple[bytes | None, int] | None) -> tuple[RowValues, RowValues] | None:
    if side is None:
        return None
    value, time = side
    source = Source(sink.name, sink.topic, sink.relation, sink.key_format, sink.value_format)
    event = Decoder(source).decode(RawRecord(key, value, time))
    if not isinstance(event, tuple):  # a topic with columns, or a record that cannot be decoded
        return {"KEY": _text(key)}, {"VALUE": _text(value), "ROWTIME": time}
    return _named(sink.relation, (time, *event[1:]))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _named(relation: Relation, event: Event) -> tuple[RowValues, RowValues]:
    """The key columns and the other columns of a row, by name."""
    time, key, row = event
    names = [field.name for field in relation.key]
    values = key or ()
    key_values = dict(zip(names, values, strict=False))
    if relation.window and values:
        key_values |= dict(zip((field.name for field in WINDOW_BOUND_FIELDS), values[-1], strict=True))
    columns = {field.name: value for field, value in zip(relation.value, row or (), strict=False)}
    return key_values, {**columns, "ROWTIME": time}


def _view_differing(relation: Relation, view: ViewComparison | None) -> Iterator[RowDifference]:
    for expected_row, actual_row in view.differing if view else ():
        expected, actual = (side and _named(relation, side) for side in (expected_row, actual_row))
        yield RowDifference("view", (expected or actual or ({}, {}))[0], expected and expected[1], actual and actual[1])
