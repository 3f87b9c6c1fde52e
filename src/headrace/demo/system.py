"""Starts a server with the demo's statements in a temporary folder, feeds it with clicks, and stops it."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from headrace import project_template
from headrace.access.principal import LOCAL
from headrace.demo.clicks import ClickStream
from headrace.demo.counts import ClickCounts
from headrace.demo.display import Display, LineDisplay, LiveDisplay, Show, Step, say
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.control.serving.push import PushSubscription

PUSH_QUERY = "SELECT page, WINDOWSTART AS second, views, dwell FROM page_views EMIT CHANGES;"
DASHBOARD_PAGE = "/ui/dashboards/clicks"
_COUNT_TIMEOUT = 30.0  # seconds at the end in which clicks in flight are counted
_POLL = 0.25  # seconds between checks of the queries
_INTERRUPTED = 130


@dataclass
class Demo:
    """A running demo: what was appended, what was counted, and where its server listens."""

    node: Node
    clicks: ClickStream
    address: str = ""
    counts: ClickCounts = field(default_factory=ClickCounts)
    _arrived: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def subscribed(self) -> Iterator[PushSubscription]:
        select = self.node.plan_select(PUSH_QUERY)
        changes = self.node.push_queries.subscribe(select, from_beginning=True, notify=self._arrived.set)
        try:
            yield changes
        finally:
            self.node.push_queries.unsubscribe(changes)

    def update(self, changes: PushSubscription) -> None:
        """Count the rows that have arrived since the last call; raises if a query has failed permanently."""
        self._arrived.wait(_POLL)
        self._arrived.clear()
        for row in changes.take():
            if not row.deleted:
                self.counts.add(row.text)
        failed = self.node.reconciler.failures.values()
        for failure in (changes.failure, *(one.error for one in failed if one.restart_at is None)):
            if failure is not None:
                raise failure

    def closing_text(self) -> str:
        """Accounts for every click: counted, or in flight when the demo stopped."""
        sent, counted = self.clicks.sent, self.counts.total
        rest = f"; {sent - counted:,} more were in flight" if sent > counted else ""
        return (
            f"{counted:,} clicks counted of {sent:,} appended, each exactly once{rest}; "
            f"{self.counts.changes:,} changes pushed."
        )


def run(
    console: Console, settings: Settings, *, seconds: float | None, plain: bool, rate: int, program: str = "headrace"
) -> None:
    """Run for `seconds`, or until Ctrl-C. `program` is the command that starts headrace, for the printed examples."""
    display: Display = LineDisplay(console) if plain else LiveDisplay(console)
    with _sigterm_interrupts(), ExitStack() as stack:
        try:
            demo, changes = _started(display, settings, rate, stack)
        except KeyboardInterrupt:
            say(console, "Ctrl-C while starting: stopping the server and removing its data ...")
            _next_interrupt_exits()
            raise
        _print_address(console, demo, program)
        try:
            with demo.clicks.running(), suppress(KeyboardInterrupt):
                _await_results(demo, changes, display)
                with display.showing() as show:
                    _watch(demo, changes, show, seconds)
            say(console, "stopping: the clicks in flight are counted first ...")
            _count_the_rest(demo, changes)
        finally:
            say(console, demo.closing_text())
            _next_interrupt_exits()


def _started(display: Display, settings: Settings, rate: int, stack: ExitStack) -> tuple[Demo, PushSubscription]:
    """Start the server and the queries, and wait for the first results; `stack` stops all of it."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-", ignore_cleanup_errors=True)))
    with display.starting() as step:
        step("loading headrace")
        from headrace.control.node import Node  # takes a second, which `headrace --help` should not pay

        own = settings.replace(storage_data=folder / "data", storage_log="embedded")
        log = stack.enter_context(EmbeddedLog(own.storage.data, own))
        step("starting the server")
        node = stack.enter_context(Node(log, own))
        node.execute(project_template.STATEMENTS)
        demo = Demo(node, ClickStream(log, rate), _serve(node, stack))
        changes = stack.enter_context(demo.subscribed())
        _await_queries(demo, changes, step)
    return demo, changes


def _await_queries(demo: Demo, changes: PushSubscription, step: Step) -> None:
    running = demo.node.supervisor.running
    while len(running) < len(demo.node.supervisor.queries) or any(one.is_starting for one in running.values()):
        step("starting the queries on Spark")
        demo.update(changes)


def _await_results(demo: Demo, changes: PushSubscription, display: Display) -> None:
    """The first batch takes longer than later ones: Spark compiles its code."""
    with display.starting() as step:
        while not demo.counts.changes:
            step("counting the first clicks")
            demo.update(changes)


def _serve(node: Node, stack: ExitStack) -> str:
    """Start the HTTP server and return its address; empty if its libraries are not installed."""
    from headrace.errors import MissingDependency
    from headrace.serve import require_libraries

    try:
        require_libraries()
    except MissingDependency:
        return ""
    from headrace.demo.dashboard import create_dashboard
    from headrace.serve.application import application
    from headrace.serve.http.server import Server, dedicate_process

    create_dashboard(node)
    dedicate_process()
    return stack.enter_context(Server(application(node, dashboard=True)).running()).address


def _print_address(console: Console, demo: Demo, program: str) -> None:
    if not demo.address:
        return
    from headrace.serve.browser_sessions import login_link

    say(console, f"dashboard: {demo.address}{DASHBOARD_PAGE}")
    link = login_link(demo.node.guard.links.create(LOCAL), DASHBOARD_PAGE)
    say(console, f"dashboard, logged in, once: {demo.address}{link}")
    say(console, f"in another terminal: {program} sql --server {demo.address}")
    for query in project_template.EXAMPLE_QUERIES[:2]:
        say(console, f"  {query}")
    say(console, "Ctrl-C stops the demo and removes its data.")


def _watch(demo: Demo, changes: PushSubscription, show: Show, seconds: float | None) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        demo.update(changes)
        show(demo.counts)


def _count_the_rest(demo: Demo, changes: PushSubscription) -> None:
    """Wait, for a limited time, until all appended clicks are counted."""
    deadline = time.monotonic() + _COUNT_TIMEOUT
    while demo.counts.total < demo.clicks.sent and time.monotonic() < deadline:
        demo.update(changes)


# -- signals --------------------------------------------------------------------------------------------------------


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM stops the demo as Ctrl-C does, so that the temporary folder is removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _next_interrupt_exits() -> None:
    """While the demo stops, another Ctrl-C ends the process at once."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(_INTERRUPTED))
