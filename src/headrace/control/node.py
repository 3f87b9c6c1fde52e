"""A server's queries: statements come one by one, are journalled and done; queries are looked after until it closes.

    with Node(log, settings) as node:
        node.execute("CREATE TABLE counts AS SELECT ...;")

A statement either is journalled and done, or left no trace. After a restart the journal is read, and everything is as
it was: sources, types, queries, which of them are paused. `care` looks after the queries.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from headrace.access.decision import ALL, Rights
from headrace.access.guard import Guard
from headrace.clock import Clock, SystemClock
from headrace.contracts import Append, Log
from headrace.control.apps import Apps, Deployed
from headrace.control.care import Care
from headrace.control.deeds import Deeds
from headrace.control.inlets import Inlet
from headrace.control.isolation import Aside, Isolation, isolation_of
from headrace.control.journal import Entry, Journal
from headrace.control.notices import Board, is_shown
from headrace.control.parking import Idleness
from headrace.control.permits import Permits, discreet, filtered
from headrace.control.prepared import Preparing
from headrace.control.printing import Printing, source_over
from headrace.control.pulls import Pulls
from headrace.control.pushes import Pushes
from headrace.control.questions import Questions
from headrace.control.replay import KEPT, Replay, empty_catalog
from headrace.control.sending import Couriers, tried_out
from headrace.control.supervisor import Enlisted, Supervisor
from headrace.control.tables import Tables
from headrace.deliver.contract import Means, Notice
from headrace.deliver.subscriptions import Subscriptions
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.errors import (
    AppInUse,
    BadQuery,
    HeadraceError,
    TooManyStatements,
    UnknownNotifier,
    UnknownQuery,
    UnknownTopic,
    Unsupported,
)
from headrace.lang.ksql.asking import asked
from headrace.lang.ksql.ast import Query, Statement
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.limits import MOST_STATEMENTS
from headrace.lang.ksql.parser import count_of
from headrace.lang.ksql.planner import Planner
from headrace.lang.python.loading import Code
from headrace.plan import catalog as actions
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import About, Action, Catalog
from headrace.plan.nodes import Query as Plan
from headrace.plan.notifiers import Notifier
from headrace.settings import Settings
from headrace.views.stores import store_of

NAME = "server"
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
        self.guard = Guard(log, settings, clock)
        isolation = isolation or _isolation(log, settings)
        self.supervisor = Supervisor(log, settings, NAME, isolation, clock, self._setup_of)
        self._turn = threading.RLock()
        self.care = Care(self.supervisor, Idleness(settings.park_after.total_seconds()), self._turn)
        self._journal = Journal(log, clock)
        self._replay = Replay(empty_catalog(log), Apps(base=setup))
        self._properties: Mapping[str, Any] = {}
        self._deeds = Deeds(log, settings, self.supervisor, clock, lambda: self._properties)
        self.tables = Tables(log, store)
        self.pulls = Pulls(log, self.tables, settings)
        self.pushes = Pushes(log, clock, settings.push_queries)
        self.preparing = Preparing(self._planned)
        self.board = Board(log)
        self.means = Means(settings, Subscriptions(log), self.is_shown)
        self._couriers = Couriers(log, self.means, clock, self.is_muted)
        self._take_up()
        self.care.begin()

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
        self._settle()
        self._shorten()

    def _settle(self) -> None:
        """What follows from the catalog."""
        self.tables.settle(self.catalog)
        self._couriers.settle(self.catalog)
        self.board.keep(self.catalog.queries)

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
        rights: Rights = ALL,
        on_done: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """Do one statement after another; the first error stops it, and what came before stays done, and is told."""
        if count_of(text) > MOST_STATEMENTS:
            what = f"there are more than {MOST_STATEMENTS} statements"
            raise TooManyStatements(what, fix="send them in parts, or rows by POST /inserts-stream")
        with self._turn, discreet(rights):
            self.catalog.numbered = self._journal.next
            kept = [self.catalog.copy()]

            def apply(action: Action, own_text: str) -> None:
                try:
                    permits().check(action)
                    outcome = self._do(action, own_text, execution, rights)
                except BaseException:
                    self.catalog.restore(kept[0])
                    raise
                self.catalog.numbered = self._journal.next
                kept[0] = self.catalog.copy()
                on_done(outcome)

            def permits() -> Permits:
                return Permits(rights, kept[0], self.log)

            def look(statement: Statement) -> None:
                permits().look(statement)

            planner = Planner(self.catalog, properties)
            named = {} if variables is None else variables
            execution = Execution(planner, apply, named, reads_files=False, look=look)
            execution.run(text)

    def asked(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL,
    ) -> actions.Ask:
        """What a SELECT asks for: `pulls` and `pushes` answer it."""
        found = self.question(text, properties, variables, rights=rights)
        if isinstance(found, Printing):
            raise BadQuery("this is no SELECT", fix="send PRINT to /query or /query-stream")
        return found

    def question(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL,
    ) -> actions.Ask | Printing:
        """What a SELECT or a PRINT asks for, over the rows that may be seen."""
        found: list[Action] = []
        with self._turn, discreet(rights):
            self.catalog.numbered = self._journal.next
            planner = Planner(self.catalog.copy(), properties)
            named = {} if variables is None else variables
            permits = Permits(rights, self.catalog, self.log)
            Execution(planner, lambda action, _: found.append(action), named, False, permits.look).run(text)
        match found:
            case [actions.Ask() as ask]:
                return filtered(ask, rights, planner.catalog)
            case [actions.Answer(about=About.TOPIC) as wanted]:
                permits.check(wanted)
                return Printing(self.log, wanted, source_over(planner.catalog, wanted.name))
        raise BadQuery(
            "this is not one SELECT or PRINT", fix="send other statements to /ksql, and one question at a time"
        )

    def _planned(self, query: Query) -> actions.Ask:
        with self._turn:
            return asked(query, self.catalog, {}, "")

    def inlet(self, name: str, *, rights: Rights = ALL) -> Inlet:
        """Rows for a stream or table."""
        with self._turn, discreet(rights):
            inlet = Inlet(self.log, self.catalog, name, self._clock)
            Permits(rights, self.catalog, self.log).check(actions.Write(inlet.source, (), ()))
            return inlet

    def _do(self, action: Action, text: str, execution: Execution, rights: Rights) -> Outcome:
        self._properties = execution.planner.properties
        if _is_kept(action):
            self.guard.audit.note("statement", rights.who.name, text=text)
            return self._journalled(action, text)
        if isinstance(action, actions.Write | actions.Delete):
            self.log.append([Append(action.source.topic, self._deeds.rows(action))])
        elif isinstance(action, actions.Answer) and action.about is not About.TOPIC:
            answer = Questions(self.log, execution, rights).answer(action, self.supervisor.paused)
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
            self.care.forget(query)
        try:
            self._deeds.do(action, start)
            self._settle()
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

    def deploy(
        self, code: Code, *, rights: Rights = ALL, on_done: Callable[[Outcome], None] = lambda outcome: None
    ) -> Deployed:
        """Have an app's code, and do those of its statements that are not done already. Sent again, it replaces what
        it was: queries that call it go on with the new code, or the whole is refused and everything stays as it is."""
        rights.check_admin("send code")
        with self._turn:
            with self.apps.trial(code) as deployed:
                before = self.apps.known.get(deployed.name)
                replay = self._replay.with_app(empty_catalog(self.log), deployed)
                changed = self._changed_by(replay, before, deployed)
                left = "\n".join(deployed.left_to_do(before, {entry.text for entry in replay.needed()}))
                Execution(Planner(replay.catalog.copy()), lambda action, text: None, reads_files=False).run(left)
                self.guard.audit.note("code", rights.who.name, app=deployed.name)
                entry = self._journal.add_code(deployed.name, {"source": code.source, "path": code.path})
            replay.add_code(entry)
            self._replay = replay
            self._go_on_with(changed)
            self.execute(left, rights=rights, on_done=on_done)
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
            self.care.forget(query)
        self.preparing.forget()

    def withdraw(self, app: str, *, rights: Rights = ALL) -> None:
        """Have an app's code no longer; refused while queries call it."""
        rights.check_admin("withdraw code")
        with self._turn:
            self.apps.get(app)
            if users := self.apps.users(app, (enlisted.query for enlisted in self.supervisor.queries.values())):
                raise AppInUse(f'queries call what app "{app}" declares: {", ".join(users)}', fix="end them first")
            self.guard.audit.note("code-withdrawn", rights.who.name, app=app)
            entry = self._journal.add_code(app, None)
            self._replay.add_code(entry)
            self.apps.withdraw(app)
            self.preparing.forget()

    # -- alerts -----------------------------------------------------------------------------------------------------

    def mutes(self, alert: str) -> dict[str | None, int]:
        """Until when an alert's notices are not sent, in ms, by their key; None is all of them."""
        now = self._clock.now()
        there = list(self._replay.mutes.items())  # notifiers ask while statements change it
        return {muted.key: until for muted, until in there if muted.alert == alert and until > now}

    def is_muted(self, notice: Notice) -> bool:
        return not self.mutes(notice.alert).keys().isdisjoint((None, notice.target))

    def is_shown(self, owner: str, query: str) -> bool:
        """Whether somebody may see what an alert's query says, by their rights of this moment."""
        return is_shown(self.guard, self.catalog, owner, query)

    def notifier(self, name: str) -> Notifier:
        if name not in self.catalog.notifiers:
            raise UnknownNotifier(f'there is no notifier "{name}"', fix="LIST NOTIFIERS names those that are there")
        return self.catalog.notifiers[name]

    def try_out(self, notifier: str) -> None:
        """Send a message by it that says that it is a test; raises why it does not get through."""
        tried_out(self.notifier(notifier), self.means, self._clock)

    # -- queries ----------------------------------------------------------------------------------------------------

    def restart(self, query: str, *, rights: Rights = ALL) -> None:
        """Stop a query; it is started again from its checkpoint, unless it is paused."""
        with self._turn:
            if query not in self.supervisor.queries:
                raise UnknownQuery(f'there is no query "{query}"', fix="LIST QUERIES names those that are there")
            Permits(rights, self.catalog, self.log).controls(self.supervisor.queries[query].query)
            self.care.restart(query)

    def reload(self, settings: Settings) -> None:
        """Settings that count at once (see `reloading`)."""
        with self._turn:
            self.settings = self.pulls.settings = settings
            self.pushes.most = settings.push_queries
            self.care.park_after(settings.park_after.total_seconds())

    def close(self) -> None:
        """Let the batches under way end, and stop; everything goes on with the next node."""
        self.care.end()
        self._couriers.close()
        self.pushes.close()
        self.tables.close()
        self.supervisor.close()
        self._journal.close()
        self.guard.close()


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
        return isinstance(action.statement, KEPT)
    return isinstance(action, actions.Create | actions.Insert | actions.Control | actions.Drop)


def _refused(action: Action) -> Unsupported:
    if isinstance(action, actions.Ask | actions.Answer):
        word = "a SELECT" if isinstance(action, actions.Ask) else "PRINT"
        return Unsupported(f"{word} has an answer of its own", fix="send it as a query")
    return Unsupported("ASSERT is for scripts that are tested", fix="run it with `headrace test` or `headrace run`")
