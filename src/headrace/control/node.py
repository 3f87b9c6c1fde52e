"""A server's queries: statements come one by one, are journalled and done; queries are looked after until it closes.

    with Node(log, settings) as node:
        node.execute("CREATE TABLE counts AS SELECT ...;")

A statement either is journalled and done, or left no trace. After a restart the journal is read, and everything is as
it was: sources, types, queries, which of them are paused. A query that fails for a reason that may pass is started
again after a pause that grows; others wait for a person, and none of them harms another. One that has had nothing to
do for a while leaves Spark until it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Append, Log
from headrace.control.apps import Apps, Deployed
from headrace.control.deeds import Deeds
from headrace.control.inlets import Inlet
from headrace.control.isolation import Aside, Isolation, isolation_of
from headrace.control.journal import Entry, Journal
from headrace.control.parking import Idleness, Parked
from headrace.control.prepared import Preparing
from headrace.control.printing import Printing, source_over
from headrace.control.pulls import Pulls
from headrace.control.pushes import Pushes
from headrace.control.questions import Questions
from headrace.control.replay import Replay, empty_catalog
from headrace.control.supervisor import Enlisted, Supervisor
from headrace.control.tables import Tables
from headrace.control.ticks import is_timed
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.errors import AppInUse, BadQuery, HeadraceError, Retry, UnknownQuery, UnknownTopic, Unsupported
from headrace.lang.ksql.asking import asked
from headrace.lang.ksql.ast import CreateType, DropType, Query
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.planner import Planner
from headrace.lang.python.loading import Code
from headrace.plan import catalog as actions
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import About, Action, Catalog
from headrace.plan.nodes import Query as Plan
from headrace.settings import Settings
from headrace.views.stores import store_of

NAME = "server"
_PAUSE = 0.2  # seconds between two looks at the queries
_LONGEST = 60.0  # seconds until a query that has failed is started again
_MANY = 100  # entries of a journal that nothing hangs on: then it is written anew
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of a statement."""

    text: str
    action: Action
    entry: Entry | None = None
    """If it was journalled."""
    answer: Listing | None = None


@dataclass(frozen=True)
class Setback:
    """A query has failed, so often in a row; it is started again at a time by `time.monotonic`, or never."""

    failure: HeadraceError
    times: int
    again_at: float | None


class Node:
    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        clock: Clock | None = None,
        setup: Setup = no_setup,
        isolation: Isolation | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        store = store_of(settings)  # refused, if at all, before anything is started
        self._clock = clock = clock or SystemClock()
        isolation = isolation or _isolation(log, settings)
        self.supervisor = Supervisor(log, settings, NAME, isolation, clock, self._setup_of)
        self.setbacks: dict[str, Setback] = {}
        self.parked: dict[str, Parked] = {}
        """Queries that are not in Spark, since they have nothing to do."""
        self._idleness = Idleness(settings.park_after.total_seconds())
        self._journal = Journal(log, clock)
        self._replay = Replay(empty_catalog(log), Apps(base=setup))
        self._properties: Mapping[str, Any] = {}
        self._deeds = Deeds(log, settings, self.supervisor, clock, lambda: self._properties)
        self._turn = threading.RLock()
        self.tables = Tables(log, store)
        self.pulls = Pulls(log, self.tables)
        self.pushes = Pushes(log, clock)
        self.preparing = Preparing(self._planned)
        self._take_up()
        self._thread = threading.Thread(target=self._tend, name="headrace-node", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def catalog(self) -> Catalog:
        return self._replay.catalog

    @property
    def apps(self) -> Apps:
        return self._replay.apps

    @property
    def broken(self) -> Mapping[int, HeadraceError]:
        """Statements of the journal that cannot be done any more, by their numbers."""
        return self._replay.broken

    def _take_up(self) -> None:
        """Be as the journal says."""
        self._replay.read(self._journal.entries)
        for topic, made_at in self._replay.deleted:
            self._delete(topic, made_at)
        self.supervisor.queries.update(self._replay.queries)
        self.supervisor.forget_left()
        self.tables.settle(self.catalog)
        if self.settings.park_after:
            for name, enlisted in self.supervisor.queries.items():
                if not is_timed(enlisted.query):
                    self._park(name)
        self._shorten()

    def _shorten(self) -> None:
        needed = self._replay.needed()
        if len(self._journal.entries) - len(needed) > _MANY:
            self._journal.keep(needed)

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        on_done: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """Do one statement after another; the first error stops it, and what came before stays done, and is told."""
        with self._turn:
            self.catalog.numbered = self._journal.next
            kept = [self.catalog.copy()]

            def apply(action: Action, own_text: str) -> None:
                try:
                    outcome = self._do(action, own_text, execution)
                except BaseException:
                    self.catalog.restore(kept[0])
                    raise
                self.catalog.numbered = self._journal.next
                kept[0] = self.catalog.copy()
                on_done(outcome)

            planner = Planner(self.catalog, properties)
            execution = Execution(planner, apply, {} if variables is None else variables, reads_files=False)
            execution.run(text)

    def asked(
        self, text: str, properties: Mapping[str, Any] | None = None, variables: dict[str, str] | None = None
    ) -> actions.Ask:
        """What a SELECT asks for: `pulls` and `pushes` answer it."""
        found = self.question(text, properties, variables)
        if isinstance(found, Printing):
            raise BadQuery("this is no SELECT", fix="send PRINT to /query or /query-stream")
        return found

    def question(
        self, text: str, properties: Mapping[str, Any] | None = None, variables: dict[str, str] | None = None
    ) -> actions.Ask | Printing:
        """What a SELECT or a PRINT asks for."""
        found: list[Action] = []
        with self._turn:
            self.catalog.numbered = self._journal.next
            planner = Planner(self.catalog.copy(), properties)
            named = {} if variables is None else variables
            Execution(planner, lambda action, _: found.append(action), named, reads_files=False).run(text)
        match found:
            case [actions.Ask() as ask]:
                return ask
            case [actions.Answer(about=About.TOPIC) as wanted]:
                return Printing(self.log, wanted, source_over(planner.catalog, wanted.name))
        raise BadQuery(
            "this is not one SELECT or PRINT", fix="send other statements to /ksql, and one question at a time"
        )

    def _planned(self, query: Query) -> actions.Ask:
        with self._turn:
            return asked(query, self.catalog, {}, "")

    def inlet(self, name: str) -> Inlet:
        """Rows for a stream or table."""
        with self._turn:
            return Inlet(self.log, self.catalog, name, self._clock)

    def _do(self, action: Action, text: str, execution: Execution) -> Outcome:
        self._properties = execution.planner.properties
        if _is_kept(action):
            return self._journalled(action, text)
        if isinstance(action, actions.Write | actions.Delete):
            self.log.append([Append(action.source.topic, self._deeds.rows(action))])
        elif isinstance(action, actions.Answer) and action.about is not About.TOPIC:
            answer = Questions(self.log, execution).answer(action, self.supervisor.paused)
            return Outcome(text, action, answer=answer)
        elif not isinstance(action, actions.Done):
            raise _refused(action)
        return Outcome(text, action)

    def _journalled(self, action: Action, text: str) -> Outcome:
        start, made_at = self._deeds.ready(action), None
        if isinstance(action, actions.Drop) and action.delete_topic:
            with suppress(UnknownTopic):
                made_at = self.log.topic(action.source.topic).created_at
        entry = self._journal.add(text, self._properties, start, made_at)
        self._replay.add(entry, action)
        for query in _concerned(action):
            self._forget(query)
        try:
            self._deeds.do(action, start)
            self.tables.settle(self.catalog)
            self.preparing.forget()
            self._shorten()
        except HeadraceError as error:  # it is journalled: what is left to do is done when the journal is read next
            _logger.warning("%s is done, but for: %s", text, error)
        return Outcome(text, action, entry)

    def _delete(self, topic: str, made_at: int) -> None:
        with suppress(UnknownTopic):
            if self.log.topic(topic).created_at == made_at:
                self.log.delete_topic(topic)

    # -- apps -------------------------------------------------------------------------------------------------------

    def deploy(self, code: Code, *, on_done: Callable[[Outcome], None] = lambda outcome: None) -> Deployed:
        """Have an app's code, and do those of its statements that are not done already. Sent again, it replaces what
        it was: queries that call it go on with the new code, or the whole is refused and everything stays as it is."""
        with self._turn:
            with self.apps.trial(code) as deployed:
                before = self.apps.known.get(deployed.name)
                replay = self._replay.with_app(empty_catalog(self.log), deployed)
                changed = self._changed_by(replay, before, deployed)
                left = "\n".join(deployed.left_to_do(before, {entry.text for entry in replay.needed()}))
                Execution(Planner(replay.catalog.copy()), lambda action, text: None, reads_files=False).run(left)
                entry = self._journal.add_code(deployed.name, {"source": code.source, "path": code.path})
            replay.add_code(entry)
            self._replay = replay
            self._go_on_with(changed)
            self.execute(left, on_done=on_done)
        return deployed

    def _setup_of(self, query: Plan) -> Setup:
        return self.apps.setup_of(query)

    def _changed_by(self, replay: Replay, before: Deployed | None, deployed: Deployed) -> dict[str, Enlisted]:
        """Queries that call the app's code; raises why one of them, or a statement, cannot go on with it."""
        for number in replay.broken.keys() - self.broken.keys():
            raise replay.broken[number]
        if before is None or before.code == deployed.code:
            return {}
        users = replay.apps.users(deployed.name, (enlisted.query for enlisted in replay.queries.values()))
        for query in users:
            self.supervisor.check_code(replay.queries[query].query)
        return {query: replay.queries[query] for query in users}

    def _go_on_with(self, changed: Mapping[str, Enlisted]) -> None:
        for query, enlisted in changed.items():
            self.supervisor.halt(query)
            self.supervisor.queries[query] = enlisted
            self._forget(query)
        self.preparing.forget()

    def withdraw(self, app: str) -> None:
        """Have an app's code no longer; refused while queries call it."""
        with self._turn:
            self.apps.get(app)
            if users := self.apps.users(app, (enlisted.query for enlisted in self.supervisor.queries.values())):
                raise AppInUse(f'queries call what app "{app}" declares: {", ".join(users)}', fix="end them first")
            entry = self._journal.add_code(app, None)
            self._replay.add_code(entry)
            self.apps.withdraw(app)
            self.preparing.forget()

    # -- queries ----------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        while not self.supervisor.stopping.wait(_PAUSE):
            try:
                with self._turn:
                    self.look()
            except Exception as error:  # a log that does not answer, say: the next look may be better
                _logger.warning("queries were not looked at: %s", error, exc_info=not isinstance(error, HeadraceError))

    def look(self) -> None:
        """Note what has failed, let go what has nothing to do, and start what is to run."""
        for name, failure in self.supervisor.failures():
            self._set_back(name, failure)
        for name, running in list(self.supervisor.running.items()):
            if self._idleness.may_leave(running):
                self.supervisor.halt(name)
                self._park(name)
        if self.supervisor.isolation.is_worn:
            _logger.info("Spark has started many queries, and begins anew")
            self.supervisor.renew()
        for name in self.supervisor.queries:
            if self._is_due(name):
                if not self.supervisor.may_start:
                    return
                self._start(name)

    def _park(self, query: str) -> None:
        """Until it has something to do. If it cannot be looked at, `start` will say why."""
        with suppress(HeadraceError):
            self.parked[query] = Parked(self.supervisor.prepared(query))

    def _is_due(self, query: str) -> bool:
        """Whether it is to be started now."""
        if query in self.supervisor.running or self.supervisor.queries[query].paused:
            return False
        if (parked := self.parked.get(query)) is not None and parked.is_done:
            return False
        setback = self.setbacks.get(query)
        return setback is None or (setback.again_at is not None and setback.again_at <= time.monotonic())

    def _start(self, query: str) -> None:
        self.parked.pop(query, None)
        try:
            self.supervisor.start(query)
        except HeadraceError as error:
            self._set_back(query, error)

    def _set_back(self, query: str, failure: HeadraceError) -> None:
        before, running = self.setbacks.get(query), self.supervisor.running.get(query)
        times = 1 if before is None or (running is not None and running.progress.batches) else before.times + 1
        again_at = time.monotonic() + min(2.0 ** (times - 1), _LONGEST) if isinstance(failure, Retry) else None
        self.setbacks[query] = Setback(failure, times, again_at)
        _logger.warning("query %s has failed, %s: %s", query, "to be tried again" if again_at else "for good", failure)
        self.supervisor.halt(query)

    def restart(self, query: str) -> None:
        """Stop a query; the next look starts it again from its checkpoint, unless it is paused."""
        with self._turn:
            if query not in self.supervisor.queries:
                raise UnknownQuery(f'there is no query "{query}"', fix="LIST QUERIES names those that are there")
            self._forget(query)
            self.supervisor.halt(query)

    def _forget(self, query: str) -> None:
        """Why it does not run."""
        self.parked.pop(query, None)
        self.setbacks.pop(query, None)

    def reload(self, settings: Settings) -> None:
        """Settings that count at once (see `reloading`)."""
        with self._turn:
            self.settings = settings
            self._idleness.after = settings.park_after.total_seconds()

    def close(self) -> None:
        """Let the batches under way end, and stop; everything goes on with the next node."""
        self.supervisor.stopping.set()
        self._thread.join()
        self.pushes.close()
        self.tables.close()
        self.supervisor.close()
        self._journal.close()


def _isolation(log: Log, settings: Settings) -> Isolation:
    """A server has no Spark itself: what is shared is shared in a process aside."""
    return Aside(NAME, log, settings) if settings.isolation == "shared" else isolation_of(NAME, log, settings)


def _concerned(action: Action) -> tuple[str, ...]:
    """Queries that an action begins, ends or holds."""
    if isinstance(action, actions.Create | actions.Insert):
        return (action.query.id,) if action.query else ()
    if isinstance(action, actions.Control):
        return action.queries
    return action.ends if isinstance(action, actions.Drop) else ()


def _is_kept(action: Action) -> bool:
    """Whether it changes what there is, and so must be known after a restart."""
    if isinstance(action, actions.Done):
        return isinstance(action.statement, CreateType | DropType)
    return isinstance(action, actions.Create | actions.Insert | actions.Control | actions.Drop)


def _refused(action: Action) -> Unsupported:
    if isinstance(action, actions.Ask | actions.Answer):
        word = "a SELECT" if isinstance(action, actions.Ask) else "PRINT"
        return Unsupported(f"{word} has an answer of its own", fix="send it as a query")
    return Unsupported("ASSERT is for scripts that are tested", fix="run it with `headrace test` or `headrace run`")
