"""How a query will run, told before it does: which way and why not natively, on how many pages, what becomes of the
changes of a table, and how often a result can come.

    told = outlook(query, topics, settings, embedded=True)
    told.way, told.reasons, told.lines()

What `headrace explain` says and what `start` does are the same, as both ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.contracts import Log, Topic
from headrace.engine.batch.paging import pages_of
from headrace.engine.native.choice import NATIVE, RECORD, choose_way
from headrace.engine.native.work import distinct_of, work_for
from headrace.engine.realtime.choice import PROMISE, REALTIME, against_realtime
from headrace.engine.record.results import merges
from headrace.errors import BadSetting
from headrace.log.embedded import EmbeddedLog
from headrace.plan import nodes as n
from headrace.plan.chain.shape import state_shape
from headrace.settings import Settings

AUTO = "auto"
BATCH, EVERY = "batch", "record"
_WAYS = (AUTO, RECORD, NATIVE, REALTIME)


@dataclass(frozen=True)
class Outlook:
    way: str
    reasons: tuple[str, ...]
    """Why not natively; if it is refused, why not as the settings ask for."""
    pages: int
    """0 if the query keeps nothing, so that no records must meet."""
    one_page: str | None
    """Why not on several."""
    changes: str
    """What is sent."""
    delivery: str = "exactly once"
    refused: bool = False
    """The settings ask for a way that it cannot go."""
    asked: str = NATIVE
    """That way."""
    by_arrow: tuple[str, ...] = ()
    """What is done where the records are read, before Spark sees them."""

    def as_dict(self) -> dict[str, Any]:
        """For `headrace explain --json`."""
        return asdict(self)

    def lines(self) -> list[str]:
        """In words."""
        if self.refused:
            return ["is refused", *(f"not {_ADVERB[self.asked]}: {reason}" for reason in self.reasons)]
        told = [f"runs {_MANNER[self.way](self.pages)}; sends {self.changes}; delivered {self.delivery}"]
        told += [f"by Arrow, while it reads: {' and '.join(self.by_arrow)}"] if self.by_arrow else []
        told += [f"not natively: {reason}" for reason in self.reasons]
        if self.way == RECORD and self.one_page:
            told.append(f"not on several pages: {self.one_page}")
        return told


def _paged(pages: int) -> str:
    """What keeps nothing needs no pages: its records need not meet."""
    return "record by record" + {0: "", 1: ", on one page"}.get(pages, f", on {pages} pages")


_MANNER: Mapping[str, Callable[[int], str]] = {
    RECORD: _paged,
    NATIVE: lambda pages: "natively, by Spark's own operators",
    REALTIME: lambda pages: "in real time, by Spark's real-time trigger",
}
_ADVERB = {NATIVE: "natively", REALTIME: "in real time"}


def outlook(
    query: n.Query, topics: Mapping[str, Topic], settings: Settings, *, embedded: bool, begun: str | None = None
) -> Outlook:
    """Of a query over these topics; `begun` is the way that it has gone so far, if it goes on."""
    if settings.way == REALTIME:
        return _in_real_time(query, topics, embedded=embedded)
    reasons = against_native(query, topics, settings, embedded=embedded) or _rather_not(query, settings, begun)
    way = _chosen(reasons, settings, begun)
    keeps = bool(state_shape(query)) or len(query.sources) > 1 or not embedded
    found = pages_of(query, timed=True)
    pages = (settings.pages if found.are_several else 1) if keeps else 0
    reason = found.reason if keeps else None
    refused = bool(reasons) and settings.way == NATIVE
    early = _by_arrow(query) if way == NATIVE and len(query.sources) == 1 else ()
    return Outlook(way, reasons, pages, reason, _changes(query, way, settings), refused=refused, by_arrow=early)


def _by_arrow(query: n.Query) -> tuple[str, ...]:
    work = work_for(query, "")
    whole = not any(isinstance(node, n.Filter) for node in n.walk(work.above))
    where = ("WHERE" if whole else "a part of WHERE",) if work.condition is not None else ()
    return (*where, "the first step of GROUP BY") if work.partial is not None else where


def _in_real_time(query: n.Query, topics: Mapping[str, Topic], *, embedded: bool) -> Outlook:
    """Only where it is asked for: what it delivers is less."""
    against = against_realtime(query, topics, kafka=not embedded)
    return Outlook(REALTIME, against, 0, None, "every row", PROMISE, refused=bool(against), asked=REALTIME)


def outlook_on(log: Log, query: n.Query, settings: Settings, begun: str | None = None) -> Outlook:
    """Of a query on a log that has its topics; raises BadSetting if it cannot run as the settings ask for."""
    names = [query.sink.topic, *(source.topic for source in query.sources)]
    topics, embedded = {name: log.topic(name) for name in names}, isinstance(log, EmbeddedLog)
    told = outlook(query, topics, settings, embedded=embedded, begun=begun)
    if told.refused:
        manner, reasons = _ADVERB[told.asked], "; ".join(told.reasons)
        raise BadSetting(f"query {query.id} cannot run {manner}: {reasons}", fix='set "way" to auto')
    return told


def against_native(
    query: n.Query, topics: Mapping[str, Topic], settings: Settings, *, embedded: bool
) -> tuple[str, ...]:
    reasons = choose_way(query, topics, every_change=_every(query, settings), kafka=not embedded).reasons
    asked = ('the setting "way" says so',) if settings.way == RECORD else ()
    return (*asked, *reasons)


def _rather_not(query: n.Query, settings: Settings, begun: str | None) -> tuple[str, ...]:
    """What could run natively, and had better not, unless somebody asks for it."""
    if settings.way != AUTO or begun == NATIVE:
        return ()
    if len(query.sources) > 1:
        return (_DEAR.format("Spark's join of streams"),)
    if distinct_of(query.sink) is not None and pages_of(query, timed=True).are_several:
        return (_DEAR.format("Spark's DISTINCT"),)
    return ()


_DEAR = "{} takes more work for each row, and pays on many cores; `way = native` asks for it"


def merging(query: n.Query, settings: Settings) -> bool:
    """Whether of a table's changes in a batch only the last of each key is sent."""
    return merges(query) and not _every(query, settings)


def _every(query: n.Query, settings: Settings) -> bool:
    if settings.changes not in (BATCH, EVERY):
        raise BadSetting(f'setting "changes" cannot be "{settings.changes}"', fix="choose batch or record")
    return settings.changes == EVERY or query.every_change


def _chosen(reasons: tuple[str, ...], settings: Settings, begun: str | None) -> str:
    """What has begun record by record goes on so, as long as nothing else is asked for: its state lies there."""
    if settings.way not in _WAYS:
        raise BadSetting(f'setting "way" cannot be "{settings.way}"', fix=f"choose {', '.join(_WAYS)}")
    return RECORD if reasons or (settings.way == AUTO and begun == RECORD) else NATIVE


def _changes(query: n.Query, way: str, settings: Settings) -> str:
    nodes = list(n.walk(query.sink))
    if query.sink.relation.kind is n.Kind.STREAM:
        return "every row"
    if any(isinstance(node, n.Final) for node in nodes):
        return "the last result of each window, once"
    if any(isinstance(node, n.Emit) for node in nodes):
        return "changes when their trigger says so"
    merged = way == NATIVE or merging(query, settings)
    return "the last change of each key in a batch" if merged else "every change"
