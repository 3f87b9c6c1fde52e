"""Runs the demo: a server with statements on Spark over a generated click stream, and a live table in the terminal.

It does what a project created by `headrace init` does: the statements run in a server, clicks are appended to the log,
and queries return the results. The table in the terminal shows a push query.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace import project_template
from headrace.contracts import Ack, Append
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.control.serving.push import PushSubscription

PAGES = ("/", "/search", "/cart", "/checkout", "/login", "/help", "/offers", "/news", "/profile", "/about")
PUSH_QUERY = "SELECT page, WINDOWSTART AS minute, views, dwell FROM page_views EMIT CHANGES;"
DASHBOARD = "clicks"
PANELS: tuple[Mapping[str, object], ...] = (
    {"kind": "line", "title": "Views by minute", "view": "PAGE_VIEWS", "x": "WINDOWSTART", "y": "VIEWS", "by": "PAGE"},
    {"kind": "top", "title": "Pages most looked at", "view": "PAGE_VIEWS", "x": "PAGE", "y": "VIEWS", "top": 5},
    {"kind": "number", "title": "Views in all", "view": "PAGE_VIEWS", "y": "VIEWS"},
    {"kind": "histogram", "title": "Mean dwell", "view": "PAGE_VIEWS", "x": "DWELL"},
)
"""The panels of the demo's dashboard."""
_TICK = 0.1  # seconds between appends


@dataclass
class DemoState:
    """The data on display: views per page and minute, and counters of the stream."""

    counts: dict[tuple[str, datetime], tuple[int, float]] = field(default_factory=dict)
    sent: int = 0
    changes: int = 0
    address: str = ""
    started: float = field(default_factory=time.monotonic)

    def take(self, row: bytes) -> None:
        page, minute, views, dwell = json.loads(row)
        self.counts[page, datetime.fromtimestamp(minute / 1000)] = (views, dwell)
        self.changes += 1

    @property
    def total(self) -> int:
        return sum(views for views, _ in self.counts.values())

    def table(self) -> Group:
        """The latest minute, page by page, next to the previous minute."""
        minutes = sorted({minute for _, minute in self.counts})
        now, before = (minutes[-1] if minutes else None), (minutes[-2] if len(minutes) > 1 else None)
        table = Table(title="clicks per page and minute", title_style="bold")
        table.add_column("page")
        table.add_column(f"{before:%H:%M}" if before else "-", justify="right", style="dim")
        table.add_column(f"{now:%H:%M}" if now else "-", justify="right", style="bold")
        table.add_column("mean dwell", justify="right")
        table.add_column("", width=32, style="cyan")
        most = max((views for (_, minute), (views, _) in self.counts.items() if minute == now), default=1)
        for page in PAGES:
            views, dwell = self.counts.get((page, now), (0, 0.0)) if now else (0, 0.0)
            earlier = self.counts.get((page, before), (0, 0.0))[0] if before else 0
            bar = "█" * round(32 * views / most)
            table.add_row(page, f"{earlier:,}", f"{views:,}", f"{dwell:.1f} s" if views else "", bar)
        rate = self.sent / max(time.monotonic() - self.started, 0.001)
        status = f"{self.sent:,} clicks appended ({rate:,.0f}/s), {self.changes:,} changes pushed"
        return Group(table, Text(status, style="dim"), *self._next())

    def _next(self) -> list[Text]:
        if not self.address:
            return []
        lines = [
            f"headrace sql --server {self.address}    and there, for example:",
            *project_template.EXAMPLE_QUERIES[:2],
        ]
        look = Text.assemble("see it move: ", (f"{self.address}/ui/dashboards/{DASHBOARD}", "bold cyan underline"))
        return [look, Text(f"try next: {lines[0]}"), *(Text(f"  {line}", style="green") for line in lines[1:])]


def run(console: Console, settings: Settings, *, seconds: float | None, plain: bool, rate: int = 5_000) -> DemoState:
    """Run for `seconds`, or until Ctrl-C; returns the last state."""
    # Imported here because it takes a second, which `headrace --help` should not pay.
    from headrace.control.node import Node

    scene, news = DemoState(), threading.Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        given = settings.replace(storage_data=folder / "data", storage_log="embedded")
        log = stack.enter_context(EmbeddedLog(given.storage.data, given))
        with console.status("starting the server and Spark ..."):
            node = stack.enter_context(Node(log, given))
            node.execute(project_template.STATEMENTS)
            scene.address = _served(node, stack)
            question = node.plan_select(PUSH_QUERY)
            answers = node.push_queries.subscribe(question, from_beginning=True, notify=news.set)
            stack.callback(node.push_queries.unsubscribe, answers)
            stack.enter_context(_clicking(log, scene, rate))
            while not scene.counts:
                _look(node, answers, news, scene)
        with suppress(KeyboardInterrupt):
            _watch(console, lambda: _look(node, answers, news, scene), scene, seconds, plain)
    return scene


def _served(node: Node, stack: ExitStack) -> str:
    """Start the server and return its address; empty if the server's libraries are not installed."""
    from headrace.errors import MissingDependency
    from headrace.serve import require_libraries

    try:
        require_libraries()
    except MissingDependency:
        return ""
    from headrace.access.authorization import ALL_RIGHTS
    from headrace.serve.api.request_context import RequestContext
    from headrace.serve.api.resources.dashboards import SaveDashboardRequest, save_dashboard
    from headrace.serve.application import application
    from headrace.serve.http.server import Server

    save_dashboard(
        RequestContext(node).by(ALL_RIGHTS),
        SaveDashboardRequest(dashboard=DASHBOARD, title="Clicks", panels=[dict(panel) for panel in PANELS]),
    )
    return stack.enter_context(Server(application(node, dashboard=True)).running()).address


@contextmanager
def _clicking(log: EmbeddedLog, scene: DemoState, rate: int) -> Iterator[None]:
    """Append generated clicks in the background."""
    stop = threading.Event()

    def click() -> None:
        dice = np.random.default_rng(7)
        while not stop.wait(_TICK):
            records = _some_clicks(dice, round(rate * _TICK))
            log.append([Append("clicks", records)], ack=Ack.ALL)
            scene.sent += len(records)

    thread = threading.Thread(target=click, name="clicks", daemon=True)
    scene.started = time.monotonic()
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _some_clicks(dice: np.random.Generator, count: int) -> list[Record]:
    """Page popularity differs and drifts over time, so that the table changes visibly."""
    favour = 1.2 + np.sin(time.time() / 7 + np.arange(len(PAGES)) * 1.7)
    chosen = dice.choice(len(PAGES), count, p=favour / favour.sum())
    columns = zip(dice.integers(0, 100_000, count).tolist(), chosen.tolist(), dice.exponential(8.0, count), strict=True)
    return [
        Record(b'{"PAGE":"%b","DWELL":%.3f}' % (PAGES[page].encode(), dwell), b"%d" % visitor)
        for visitor, page, dwell in columns
    ]


def _look(node: Node, answers: PushSubscription, news: threading.Event, scene: DemoState) -> None:
    """Process the rows that have arrived since the last call; raises if a query has failed permanently."""
    news.wait(0.25)
    news.clear()
    for row in answers.take():
        if not row.deleted:
            scene.take(row.text)
    for failure in (answers.failure, *(f.error for f in node.reconciler.failures.values() if f.restart_at is None)):
        if failure is not None:
            raise failure


def _watch(console: Console, look: Callable[[], None], scene: DemoState, seconds: float | None, plain: bool) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    with Live(scene.table(), console=console, refresh_per_second=8, transient=plain, auto_refresh=not plain) as live:
        while deadline is None or time.monotonic() < deadline:
            look()
            if not plain:
                live.update(scene.table())
    if plain:
        console.print(scene.table())
