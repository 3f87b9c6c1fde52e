"""Applies actions to a runtime. One interpreter serves a server, a script on a log, and tests in memory.

The runtime has the effects: topics, queries, rows. The interpreter knows which of them an action needs, in what order,
and checks assertions. `prepare` does what may fail and may be repeated, so that a server can journal the statement
between `prepare` and `apply`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatchmethod
from itertools import islice
from typing import Any, Protocol

from headrace.errors import UnknownProcess, Unsupported
from headrace.lang import assertions
from headrace.lang.contract import DescribeContext
from headrace.lang.executor import ScriptExecutor
from headrace.lang.listing import Fact, Listing
from headrace.lang.record_printer import print_records
from headrace.plan import actions
from headrace.plan.actions import Action, MetadataKind, QueryVerb
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event


class Runtime(Protocol):
    """Where actions take effect."""

    def prepare_query(self, query: Query, properties: Mapping[str, Any]) -> Any:
        """Create the query's topics; returns the position after which it starts, None is the beginning."""
        ...

    def create_topic(self, source: SourceInfo) -> None:
        """Create the topic of a declared source, if it does not exist."""
        ...

    def start_query(self, query: Query, start: Any, replaces: str | None) -> None: ...

    def terminate_query(self, query: str) -> None: ...

    def pause_query(self, query: str, *, paused: bool) -> None: ...

    def kill_process(self, process: str) -> None:
        """End a pull or push query; raises if there is none of that id, or none that the principal may see."""
        ...

    def delete_topic(self, topic: str) -> None: ...

    def write(self, source: SourceInfo, events: Sequence[Event], statement: str) -> None:
        """Write rows that a statement contains to the source's topic."""
        ...

    def now(self) -> int:
        """The time of rows whose statement gives none."""
        ...

    def wait_until_idle(self) -> None:
        """Wait until all queries have processed their input, before records are compared."""
        ...

    def source_of_topic(self, topic: str, catalog: Catalog) -> SourceInfo | None:
        """The source that declares the topic's format; None if there is none."""
        ...

    def records(self, topic: str, source: SourceInfo | None) -> Iterable[RawRecord]:
        """All current records of a topic; raises if there is no such topic."""
        ...

    def describe_context(self, execution: ScriptExecutor) -> DescribeContext: ...


def select_not_allowed() -> Unsupported:
    """The error for a SELECT where nobody receives its rows."""
    return Unsupported(
        "a script cannot contain a SELECT that returns rows",
        fix="write CREATE STREAM ... AS or CREATE TABLE ... AS before it, and read its topic",
    )


def unknown_process(id: str) -> UnknownProcess:
    """The error for an id that does not exist, or is hidden."""
    return UnknownProcess(
        f"there is no running pull or push query with the id {id[:40]}", fix="SHOW PROCESSES lists the running ones"
    )


class Interpreter:
    """Applies the actions of one script or connection, whose state is `execution`."""

    def __init__(
        self,
        runtime: Runtime,
        execution: ScriptExecutor,
        on_listing: Callable[[Listing], None] = lambda listing: None,
    ) -> None:
        self._runtime = runtime
        self._execution = execution
        self._on_listing = on_listing
        self._asserted: Counter[str] = Counter()
        """Records of each topic that ASSERT VALUES has already checked."""
        self.assertions = 0
        """Number of ASSERTs that passed."""

    @property
    def _catalog(self) -> Catalog:
        return self._execution.planner.catalog

    def prepare(self, action: Action) -> Any:
        """Create the topics that an action needs; returns where its query starts, None is the beginning."""
        query = action.query if isinstance(action, actions.CreateSource | actions.StartQuery) else None
        if query is not None:
            return self._runtime.prepare_query(query, self._execution.planner.properties)
        if isinstance(action, actions.CreateSource):
            self._runtime.create_topic(action.source)
        return None

    def run(self, action: Action, text: str) -> None:
        """Prepare and apply an action; `text` is its statement's."""
        self.apply(action, text, self.prepare(action))

    def apply(self, action: Action, text: str = "", start: Any = None) -> None:
        """Apply an action. The planner has already changed the catalog, so many actions have no further effect."""
        self._apply(action, text, start)

    @singledispatchmethod
    def _apply(self, action: Action, text: str, start: Any) -> None:
        """Types, notifiers, alerts and properties are in the catalog or in the planner only."""

    # -- sources and queries ----------------------------------------------------------------------------------------

    @_apply.register
    def _(self, action: actions.CreateSource, text: str, start: Any) -> None:
        if action.query is not None:
            self._runtime.start_query(action.query, start, action.replaces)

    @_apply.register
    def _(self, action: actions.StartQuery, text: str, start: Any) -> None:
        self._runtime.start_query(action.query, start, None)

    @_apply.register
    def _(self, action: actions.ControlQueries, text: str, start: Any) -> None:
        for query in action.queries:
            if action.verb is QueryVerb.TERMINATE:
                self._runtime.terminate_query(query)
            else:
                self._runtime.pause_query(query, paused=action.verb is QueryVerb.PAUSE)

    @_apply.register
    def _(self, action: actions.DropSource, text: str, start: Any) -> None:
        for query in action.queries:
            self._runtime.terminate_query(query)
        if action.delete_topic:
            self._runtime.delete_topic(action.source.topic)

    @_apply.register
    def _(self, action: actions.KillProcess, text: str, start: Any) -> None:
        self._runtime.kill_process(action.process)
        self._on_listing(Listing("killed", text, facts=(Fact("id", "Killed query", action.process),)))

    # -- rows -------------------------------------------------------------------------------------------------------

    @_apply.register
    def _(self, action: actions.InsertRow, text: str, start: Any) -> None:
        time = self._runtime.now() if action.timestamp is None else action.timestamp
        self._runtime.write(action.source, [(time, action.key, action.value)], text)

    @_apply.register
    def _(self, action: actions.DeleteRows, text: str, start: Any) -> None:
        now = self._runtime.now()
        self._runtime.write(action.source, [(now, key, None) for key in action.keys], text)

    # -- answers ----------------------------------------------------------------------------------------------------

    @_apply.register
    def _(self, action: actions.TransientSelect, text: str, start: Any) -> None:
        raise select_not_allowed()

    @_apply.register
    def _(self, action: actions.MetadataQuery, text: str, start: Any) -> None:
        self._on_listing(self.describe(action))

    def describe(self, action: actions.MetadataQuery) -> Listing:
        """Answer a metadata statement. PRINT shows the current records only: a script does not wait for more."""
        if action.about is MetadataKind.TOPIC:
            source = self._runtime.source_of_topic(action.name, self._catalog)
            return print_records(action, self._runtime.records(action.name, source), source)
        return self._execution.dialect.describe(action, self._runtime.describe_context(self._execution))

    # -- assertions -------------------------------------------------------------------------------------------------

    @_apply.register
    def _(self, action: actions.ExpectRecord, text: str, start: Any) -> None:
        self._runtime.wait_until_idle()
        topic = action.source.topic
        records = islice(self._runtime.records(topic, action.source), self._asserted[topic], None)
        assertions.check_record(action, next(iter(records), None))
        self._asserted[topic] += 1
        self.assertions += 1

    @_apply.register
    def _(self, action: actions.ExpectSource, text: str, start: Any) -> None:
        assertions.check_source(action, self._catalog.sources.get(action.name))
        self.assertions += 1

    @_apply.register
    def _(self, action: actions.ExpectTopic, text: str, start: Any) -> None:
        topics = self._runtime.describe_context(self._execution).topics
        assertions.check_topic(action.topic, topics, exists=action.exists)
        self.assertions += 1

    @_apply.register
    def _(self, action: actions.ExpectSchema, text: str, start: Any) -> None:
        raise Unsupported("ASSERT SCHEMA is not supported", fix="list schemas with `headrace schema list`")
