"""The demo: the whole system on a generated click stream: a server, statements, Spark, and a table that moves.

It does what a project of `headrace init` does: its statements run in a server, clicks go into the log, and whoever
asks is told what follows. The table in the terminal is such a question.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace import project
from headrace.contracts import Ack, Append
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.control.pushes import Subscription

PAGES = ("/", "/search", "/cart", "/checkout", "/login", "/help", "/offers", "/news", "/profile", "/about")
QUESTION = "SELECT page, WINDOWSTART AS minute, views, dwell FROM page_views EMIT CHANGES;"
BOARD = "clicks"
PANELS: tuple[Mapping[str, object], ...] = (
    {"kind": "line", "title": "Views by minute", "view": "PAGE_VIEWS", "x": "WINDOWSTART", "y": "VIEWS", "by": "PAGE"},
    {"kind": "top", "title": "Pages most looked at", "view": "PAGE_VIEWS", "x": "PAGE", "y": "VIEWS", "top": 5},
    {"kind": "number", "title": "Views in all", "view": "PAGE_VIEWS", "y": "VIEWS"},
    {"kind": "histogram", "title": "Mean dwell", "view": "PAGE_VIEWS", "x": "DWELL"},
)
"""A dashboard to begin with."""
_TICK = 0.1  # seconds between appends


@dataclass
class Scene:
    """What the watcher sees: views per page and minute, and the state of the stream."""

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
        """The newest minute, page by page, with the minute before beside it."""
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
        lines = [f"headrace sql --server {self.address}    and there, for example:", *project.QUESTIONS[:2]]
        look = Text.assemble("see it move: ", (f"{self.address}/ui/boards/{BOARD}", "bold cyan underline"))
        return [look, Text(f"try next: {lines[0]}"), *(Text(f"  {line}", style="green") for line in lines[1:])]


def run(console: Console, settings: Settings, *, seconds: float | None, plain: bool, rate: int = 5_000) -> Scene:
    """Run until the time is over or Ctrl-C; returns what was seen last."""
    # Imported here: it takes a second, which `headrace --help` should not cost.
    from headrace.control.node import Node

    scene, news = Scene(), threading.Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        given = replace(settings, data=folder / "data", log="embedded")
        log = stack.enter_context(EmbeddedLog(given.data, given))
        with console.status("starting the system, Spark with it ..."):
            node = stack.enter_context(Node(log, given))
            node.execute(project.STATEMENTS)
            scene.address = _served(node, stack)
            question = node.asked(QUESTION)
            answers = node.pushes.subscribe(question, from_beginning=True, notify=news.set)
            stack.callback(node.pushes.unsubscribe, answers)
            stack.enter_context(_clicking(log, scene, rate))
            while not scene.counts:
                _look(node, answers, news, scene)
        with suppress(KeyboardInterrupt):
            _watch(console, lambda: _look(node, answers, news, scene), scene, seconds, plain)
    return scene


def _served(node: Node, stack: ExitStack) -> str:
    """The server's address; without the libraries for it there is none."""
    from headrace.errors import MissingPart
    from headrace.serve import require_libraries

    try:
        require_libraries()
    except MissingPart:
        return ""
    from headrace.access.decision import ALL
    from headrace.serve.api.boards import Saved, save_board
    from headrace.serve.api.site import Site
    from headrace.serve.application import application
    from headrace.serve.server import Server

    save_board(Site(node).by(ALL), Saved(board=BOARD, title="Clicks", panels=[dict(panel) for panel in PANELS]))
    return stack.enter_context(Server(application(node, dashboard=True)).running()).address


@contextmanager
def _clicking(log: EmbeddedLog, scene: Scene, rate: int) -> Iterator[None]:
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
    """Some pages are dearer than others, and the favour wanders, so that there is something to see."""
    favour = 1.2 + np.sin(time.time() / 7 + np.arange(len(PAGES)) * 1.7)
    chosen = dice.choice(len(PAGES), count, p=favour / favour.sum())
    columns = zip(dice.integers(0, 100_000, count).tolist(), chosen.tolist(), dice.exponential(8.0, count), strict=True)
    return [
        Record(b'{"PAGE":"%b","DWELL":%.3f}' % (PAGES[page].encode(), dwell), b"%d" % visitor)
        for visitor, page, dwell in columns
    ]


def _look(node: Node, answers: Subscription, news: threading.Event, scene: Scene) -> None:
    """Take in what has come since the last look; says so if a query has failed for good."""
    news.wait(0.25)
    news.clear()
    for row in answers.take():
        if not row.deleted:
            scene.take(row.text)
    for failure in (answers.failure, *(s.failure for s in node.care.setbacks.values() if s.again_at is None)):
        if failure is not None:
            raise failure


def _watch(console: Console, look: Callable[[], None], scene: Scene, seconds: float | None, plain: bool) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    with Live(scene.table(), console=console, refresh_per_second=8, transient=plain, auto_refresh=not plain) as live:
        while deadline is None or time.monotonic() < deadline:
            look()
            if not plain:
                live.update(scene.table())
    if plain:
        console.print(scene.table())
