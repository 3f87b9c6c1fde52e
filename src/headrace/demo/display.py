"""Shows the demo's progress: a live table in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from headrace.demo.clicks import PAGES
from headrace.demo.counts import SECOND, ClickCounts

Step = Callable[[str], None]
Show = Callable[[ClickCounts], None]
_BARS = " ▁▂▃▄▅▆▇█"
_OTHER_COLUMNS = 40  # characters that the table needs beside the chart
_LONGEST_CHART = 60  # seconds
_REPEAT_STEP_AFTER = 5.0  # seconds after which a step of the start is printed again


class Display(Protocol):
    def starting(self) -> AbstractContextManager[Step]:
        """Give a function that says what is being started, during the block."""
        ...

    def showing(self) -> AbstractContextManager[Show]:
        """Give a function that shows counts, during the block."""
        ...


@dataclass
class LineDisplay:
    """Prints each step of the start with its time, then a line every `every` seconds; no control codes."""

    console: Console
    every: float = 2.0
    started: float = field(default_factory=time.monotonic)
    _last_step: tuple[str, float] = ("", 0.0)

    @contextmanager
    def starting(self) -> Iterator[Step]:
        yield self._step

    def _step(self, step: str) -> None:
        """Print a step when it begins, and again while it takes long."""
        elapsed = time.monotonic() - self.started
        last, at = self._last_step
        if step != last or elapsed - at >= _REPEAT_STEP_AFTER:
            self._last_step = step, elapsed
            say(self.console, f"{elapsed:4.0f} s  {step}")

    @contextmanager
    def showing(self) -> Iterator[Show]:
        due, shown = time.monotonic(), None

        def show(counts: ClickCounts) -> None:
            nonlocal due, shown
            if time.monotonic() >= due and counts.last_full_second != shown:
                due, shown = time.monotonic() + self.every, counts.last_full_second
                say(self.console, count_line(counts))

        yield show


@dataclass
class LiveDisplay:
    """A spinner with the elapsed seconds during the start, then a table that is redrawn."""

    console: Console

    @contextmanager
    def starting(self) -> Iterator[Step]:
        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("starting")
            yield lambda step: progress.update(task, description=step)

    @contextmanager
    def showing(self) -> Iterator[Show]:
        with Live(console=self.console, refresh_per_second=8) as live:
            yield lambda counts: live.update(count_table(counts, self.console.width))


def say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def count_line(counts: ClickCounts) -> str:
    """`12:00:01  4,980 clicks/s: /cart 801, /search 640, / 552`."""
    second = counts.last_full_second or 0
    views = {page: counts.views(page, second) for page in PAGES}
    most = sorted(PAGES, key=lambda page: -views[page])[:3]
    named = ", ".join(f"{page} {views[page]:,}" for page in most)
    return f"{_clock(second)}  {sum(views.values()):,} clicks/s: {named}"


def count_table(counts: ClickCounts, width: int) -> Table:
    """The last full second page by page, and the seconds before it as a chart."""
    second = counts.last_full_second or 0
    length = max(0, min(width - _OTHER_COLUMNS, _LONGEST_CHART))
    histories = {page: counts.history(page, length) for page in PAGES}
    most = max((views for history in histories.values() for views in history), default=0)
    table = Table(title=f"clicks per second, {_clock(second)}", title_style="bold")
    table.add_column("page", no_wrap=True)
    table.add_column("clicks/s", justify="right", style="bold", no_wrap=True)
    table.add_column("mean dwell", justify="right", no_wrap=True)
    if length:
        table.add_column(f"last {length} s", style="cyan", no_wrap=True, width=length)
    for page, history in histories.items():
        views, dwell = counts.views(page, second), counts.mean_dwell(page, second)
        chart = [Text(sparkline(history, most))] if length else []
        table.add_row(page, f"{views:,}", f"{dwell:.1f} s" if views else "", *chart)
    return table


def sparkline(values: list[int], most: int) -> str:
    """One character per value, from 0 to `most`."""
    return "".join(_BARS[round(value / max(most, 1) * (len(_BARS) - 1))] for value in values)


def _clock(second: int) -> str:
    return f"{datetime.fromtimestamp(second / SECOND):%H:%M:%S}"
