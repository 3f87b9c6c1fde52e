"""Chooses how a query runs: the execution mode and why not natively, key groups, emitted changes, and delivery.

    choice = choose_execution(query, topics, settings, embedded=True)
    choice.execution_mode, choice.reasons, choice.lines()

`headrace explain` and `start_query` agree because both use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.contracts import Log, Topic
from headrace.engine.execution_mode import AUTO, NATIVE, REALTIME, RECORD
from headrace.engine.native.task_spec import native_task_spec, only_distinct
from headrace.engine.planning.native_support import choose_native
from headrace.engine.planning.realtime_support import DELIVERY_GUARANTEE, realtime_obstacles
from headrace.engine.record.results import can_merge_changes
from headrace.errors import BadSetting
from headrace.log.embedded import EmbeddedLog
from headrace.plan import nodes as n
from headrace.plan.analysis.partitioning import key_group_assigner
from headrace.plan.analysis.state_shape import state_shape
from headrace.plan.relations import Kind
from headrace.settings import Settings

EMIT_PER_BATCH, EMIT_PER_RECORD = "per-batch", "per-record"
_MODES = (AUTO, RECORD, NATIVE, REALTIME)


@dataclass(frozen=True)
class ExecutionChoice:
    execution_mode: str
    reasons: tuple[str, ...]
    """Why not natively; if it is refused, why not in the configured mode."""
    key_groups: int
    """Number of key groups; 0 if the query is stateless, so that no records have to meet."""
    single_key_group: str | None
    """Why there is only one key group; None if there are several, or none."""
    emits: str
    delivery: str = "exactly once"
    refused: bool = False
    """Whether the settings require a mode that the query does not support."""
    requested: str = NATIVE
    """That mode."""
    arrow_steps: tuple[str, ...] = ()
    """Steps that Arrow performs while records are read, before Spark sees them."""

    def as_dict(self) -> dict[str, Any]:
        """For `headrace explain --json`."""
        return asdict(self)

    def lines(self) -> list[str]:
        """As text, for `headrace explain`."""
        if self.refused:
            return ["is refused", *(f"not {_ADVERB[self.requested]}: {reason}" for reason in self.reasons)]
        lines = [f"runs {_MANNER[self.execution_mode](self.key_groups)}; sends {self.emits}; delivered {self.delivery}"]
        lines += [f"by Arrow, while it reads: {' and '.join(self.arrow_steps)}"] if self.arrow_steps else []
        lines += [f"not natively: {reason}" for reason in self.reasons]
        if self.execution_mode == RECORD and self.single_key_group:
            lines.append(f"one key group only: {self.single_key_group}")
        return lines


def _record_manner(key_groups: int) -> str:
    """A stateless query needs no key groups: its records do not have to meet."""
    return "record by record" + {0: "", 1: ", in one key group"}.get(key_groups, f", in {key_groups} key groups")


_MANNER: Mapping[str, Callable[[int], str]] = {
    RECORD: _record_manner,
    NATIVE: lambda _: "natively, by Spark's own operators",
    REALTIME: lambda _: "in real time, by Spark's real-time trigger",
}
_ADVERB = {NATIVE: "natively", REALTIME: "in real time"}


def choose_execution(
    query: n.Query, topics: Mapping[str, Topic], settings: Settings, *, embedded: bool, started_in: str | None = None
) -> ExecutionChoice:
    """Chooses for a query over these topics; `started_in` is the mode that it has used so far, if it resumes."""
    if settings.query.execution_mode == REALTIME:
        return _in_real_time(query, topics, embedded=embedded)
    reasons = native_obstacles(query, topics, settings, embedded=embedded) or _reasons_against_native(
        query, settings, started_in
    )
    execution_mode = _chosen_mode(reasons, settings, started_in)
    is_stateful = bool(state_shape(query)) or len(query.sources) > 1 or not embedded
    assigner = key_group_assigner(query, timed=True)
    key_groups = (settings.query.key_groups if assigner.are_several else 1) if is_stateful else 0
    reason = assigner.reason if is_stateful else None
    refused = bool(reasons) and settings.query.execution_mode == NATIVE
    arrow_steps = _arrow_steps(query) if execution_mode == NATIVE else ()
    emits = _emits(query, execution_mode, settings)
    return ExecutionChoice(execution_mode, reasons, key_groups, reason, emits, refused=refused, arrow_steps=arrow_steps)


def _arrow_steps(query: n.Query) -> tuple[str, ...]:
    work = native_task_spec(query, "")
    whole = not any(isinstance(node, n.Filter) for node in n.walk(work.above))
    where = ("WHERE" if whole else "a part of WHERE",) if work.condition is not None else ()
    return (*where, "the first step of GROUP BY") if work.partial is not None else where


def _in_real_time(query: n.Query, topics: Mapping[str, Topic], *, embedded: bool) -> ExecutionChoice:
    """Only on request: its delivery guarantee is weaker."""
    against = realtime_obstacles(query, topics, kafka=not embedded)
    return ExecutionChoice(
        REALTIME, against, 0, None, "every row", DELIVERY_GUARANTEE, refused=bool(against), requested=REALTIME
    )


def choose_execution_on(log: Log, query: n.Query, settings: Settings, started_in: str | None = None) -> ExecutionChoice:
    """Chooses for a query on a log that has its topics; raises BadSetting if it cannot run as configured."""
    names = [query.sink.topic, *(source.topic for source in query.sources)]
    topics, embedded = {name: log.topic(name) for name in names}, isinstance(log, EmbeddedLog)
    choice = choose_execution(query, topics, settings, embedded=embedded, started_in=started_in)
    if choice.refused:
        manner, reasons = _ADVERB[choice.requested], "; ".join(choice.reasons)
        raise BadSetting(f"query {query.id} cannot run {manner}: {reasons}", fix='set "query.execution_mode" to auto')
    return choice


def native_obstacles(
    query: n.Query, topics: Mapping[str, Topic], settings: Settings, *, embedded: bool
) -> tuple[str, ...]:
    reasons = choose_native(
        query, topics, every_change=_emits_every_change(query, settings), kafka=not embedded
    ).reasons
    set_so = ('the setting "query.execution_mode" is record',) if settings.query.execution_mode == RECORD else ()
    return (*set_so, *reasons)


def _reasons_against_native(query: n.Query, settings: Settings, started_in: str | None) -> tuple[str, ...]:
    """Why a query that could run natively should not, unless it is requested."""
    if settings.query.execution_mode != AUTO or started_in == NATIVE:
        return ()
    if only_distinct(query.sink) is not None and key_group_assigner(query, timed=True).are_several:
        return (_DEAR_DISTINCT,)
    return ()


_DEAR_DISTINCT = (
    "Spark's DISTINCT takes more work for each row, and pays on many cores; `query.execution_mode = native` requests it"
)


def merges_changes(query: n.Query, settings: Settings) -> bool:
    """Whether only the last change of each key in a batch is emitted."""
    return can_merge_changes(query) and not _emits_every_change(query, settings)


def _emits_every_change(query: n.Query, settings: Settings) -> bool:
    if settings.query.emit not in (EMIT_PER_BATCH, EMIT_PER_RECORD):
        raise BadSetting(
            f'setting "query.emit" cannot be "{settings.query.emit}"', fix="choose per-batch or per-record"
        )
    return settings.query.emit == EMIT_PER_RECORD or query.every_change


def _chosen_mode(reasons: tuple[str, ...], settings: Settings, started_in: str | None) -> str:
    """A query that started record by record stays so, unless configured otherwise: its state is stored in that form."""
    if settings.query.execution_mode not in _MODES:
        raise BadSetting(
            f'setting "query.execution_mode" cannot be "{settings.query.execution_mode}"',
            fix=f"choose {', '.join(_MODES)}",
        )
    return RECORD if reasons or (settings.query.execution_mode == AUTO and started_in == RECORD) else NATIVE


def _emits(query: n.Query, execution_mode: str, settings: Settings) -> str:
    nodes = list(n.walk(query.sink))
    if query.sink.relation.kind is Kind.STREAM:
        return "every row"
    if any(isinstance(node, n.Final) for node in nodes):
        return "the last result of each window, once"
    if any(isinstance(node, n.Emit) for node in nodes):
        return "changes when their trigger says so"
    merged = execution_mode == NATIVE or merges_changes(query, settings)
    return "the last change of each key in a batch" if merged else "every change"
