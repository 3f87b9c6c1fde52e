"""The demo: a generated click stream goes into an embedded log, Spark counts it per page and minute, a table moves.

It is also the shortest example of the whole path: log -> Spark -> log -> somebody who watches.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.contracts import Ack, Append, Subscription, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.consumer import EmbeddedConsumer
from headrace.schema import Schema
from headrace.settings import Settings

PAGES = ("/", "/search", "/cart", "/checkout", "/login", "/help", "/offers", "/news", "/profile", "/about")
CLICKS = Schema.parse("user bigint key, page string, dwell double")
COUNTS = Schema.parse("page string key, minute timestamp key, views bigint, dwell double")
_TICK = 0.1  # seconds between appends


@dataclass
class Scene:
    """What the watcher sees: views per page and minute, and the state of the stream."""

    counts: dict[tuple[str, datetime], tuple[int, float]] = field(default_factory=dict)
    sent: int = 0
    batches: int = 0
    started: float = field(default_factory=time.monotonic)

    def count_batch(self) -> None:
        """Spark has finished a micro-batch."""
        self.batches += 1

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
            table.add_row(page, f"{earlier:,}", f"{views:,}", f"{dwell / views:.1f} s" if views else "", bar)
        rate = self.sent / max(time.monotonic() - self.started, 0.001)
        status = f"{self.sent:,} clicks appended ({rate:,.0f}/s), {self.batches} micro-batches counted by Spark"
        return Group(table, Text(status, style="dim"))


def run(console: Console, settings: Settings, *, seconds: float | None, plain: bool, rate: int = 5_000) -> Scene:
    """Run until the time is over or Ctrl-C; returns what was seen last."""
    # Imported here: Spark takes a second to import, which `headrace --help` should not cost.
    from headrace.engine.clicks import counting

    scene = Scene()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        log = stack.enter_context(EmbeddedLog(folder / "data"))
        log.create_topic("clicks", TopicSpec(partitions=2, schema=CLICKS))
        log.create_topic("page_counts", TopicSpec(schema=COUNTS, compact=True))
        counts = log.consumer("watchers", Subscription(("page_counts",)))
        stack.callback(counts.close)
        stack.callback(_look, counts, scene)
        with console.status("starting Spark and waiting for its first result ..."):
            check = stack.enter_context(counting(log, settings, folder / "checkpoint", scene.count_batch))
            stack.enter_context(_clicking(log, scene, rate))
            while not scene.counts:
                check()
                _look(counts, scene)
        with suppress(KeyboardInterrupt):
            _watch(console, counts, scene, seconds, plain, check)
    return scene


@contextmanager
def _clicking(log: EmbeddedLog, scene: Scene, rate: int) -> Iterator[None]:
    """Append generated clicks in the background."""
    stop = threading.Event()

    def click() -> None:
        dice = np.random.default_rng(7)
        while not stop.wait(_TICK):
            rows = _some_clicks(dice, round(rate * _TICK))
            log.append([Append("clicks", rows)], ack=Ack.ALL)
            scene.sent += rows.num_rows

    thread = threading.Thread(target=click, name="clicks", daemon=True)
    scene.started = time.monotonic()
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _some_clicks(dice: np.random.Generator, count: int) -> pa.RecordBatch:
    """Some pages are dearer than others, and the favour wanders, so that there is something to see."""
    favour = 1.2 + np.sin(time.time() / 7 + np.arange(len(PAGES)) * 1.7)
    chosen = dice.choice(len(PAGES), count, p=favour / favour.sum())
    return pa.RecordBatch.from_pydict(
        {
            "user": pa.array(dice.integers(0, 100_000, count)),
            "page": pa.array(PAGES).take(pa.array(chosen)),
            "dwell": pa.array(dice.exponential(8.0, count)),
        }
    )


def _look(counts: EmbeddedConsumer, scene: Scene) -> None:
    """Take in what Spark has counted since the last look."""
    for batch in counts.poll(timedelta(milliseconds=250)):
        for row in batch.rows.to_pylist():
            scene.counts[row["page"], row["minute"]] = (row["views"], row["dwell"])


def _watch(
    console: Console,
    counts: EmbeddedConsumer,
    scene: Scene,
    seconds: float | None,
    plain: bool,
    check: Callable[[], None],
) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    with Live(scene.table(), console=console, refresh_per_second=8, transient=plain, auto_refresh=not plain) as live:
        while deadline is None or time.monotonic() < deadline:
            check()
            _look(counts, scene)
            if not plain:
                live.update(scene.table())
    if plain:
        console.print(scene.table())
