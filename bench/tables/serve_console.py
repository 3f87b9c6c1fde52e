"""Case dashboard: many browsers show a dashboard while records flow.

The cost is what the server's own process uses more than before, when the same records flowed and no page was open. A
page is shown when its live parts are; each browser begins with nothing in its cache.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page

from bench.harness.browser import chromium
from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, SystemTimer, send_on
from bench.tables.serve_server import Server, server, until
from headrace.contracts import Append
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_STATEMENTS = """
CREATE STREAM clicks (visitor STRING KEY, page STRING, dwell DOUBLE)
  WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE TABLE page_views AS SELECT page, COUNT(*) AS views, SUM(dwell) AS dwell FROM clicks GROUP BY page;
"""
_BOARD = {
    "title": "Clicks",
    "panels": [
        {"kind": "bar", "view": "PAGE_VIEWS", "x": "PAGE", "y": "VIEWS"},
        {"kind": "top", "view": "PAGE_VIEWS", "x": "PAGE", "y": "DWELL"},
    ],
}
_PAGES = {
    "/": ".hr-flow a",
    "/dashboards/clicks": ".hr-chart svg path",
    "/topics": ".hr-grid td",
    "/queries": ".hr-grid td",
    "/views/PAGE_VIEWS": ".hr-grid td",
}
"""By page: the element that is present once the page is shown."""
_TIMES = 10  # appends a second
_KINDS = 50  # of pages that are clicked on


def console(work: Work) -> Outcome:
    with server(work.folder / "data") as target:
        target.ksql(_STATEMENTS)
        target.put("/api/v1/dashboards/clicks", _BOARD)
        with _flowing(work), chromium() as browser, ExitStack() as open_windows:
            until(lambda: bool(target.rows("SELECT * FROM page_views;")), "Spark has counted the first clicks")
            time.sleep(work["warmup_seconds"])
            alone = _percent(target, work["seconds"])
            opened = [_opened(browser, target, number, open_windows) for number in range(work["browsers"])]
            before = [page.inner_text("main") for page, _ in opened]
            watched = _percent(target, work["seconds"])
            _check_moved(before, [page for page, _ in opened])
    extra = {"console_percent": watched - alone, "alone_percent": alone}
    return Outcome(
        round(work["rate"] * work["seconds"]), work["seconds"], [milliseconds for _, milliseconds in opened], extra
    )


def _opened(browser: Browser, target: Server, number: int, windows: ExitStack) -> tuple[Page, float]:
    """A page that stays open, and the milliseconds until it was shown."""
    path, selector = list(_PAGES.items())[number % len(_PAGES)]
    page = windows.enter_context(browser.new_context()).new_page()
    started = time.monotonic()
    page.goto(f"http://127.0.0.1:{target.port}/ui{path}")
    page.wait_for_selector(selector, state="attached")
    return page, 1000 * (time.monotonic() - started)


def _check_moved(before: list[str], pages: list[Page]) -> None:
    """Checks that the pages move: a page that does not would cost nothing."""
    still = [page.url for page, text in zip(pages, before, strict=True) if page.inner_text("main") == text]
    if still:
        raise RuntimeError(f"pages stand still: {still}")


def _percent(target: Server, seconds: float) -> float:
    """Of a core, by the server's own process: Spark has others."""
    process = psutil.Process(target.pid)
    before, started = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    return 100 * (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - started)


@contextmanager
def _flowing(work: Work) -> Iterator[None]:
    process = get_context("spawn").Process(
        target=_append, args=(str(work.folder / "data"), dict(work.settings)), daemon=True
    )
    process.start()
    try:
        yield
        if process.exitcode is not None:
            raise RuntimeError("the appending process has ended")
    finally:
        process.terminate()
        process.join()


def _append(folder: str, settings: Mapping[str, Any]) -> None:
    many = settings["rate"] // _TIMES
    rows = [
        Record(json.dumps({"PAGE": f"/page/{number % _KINDS}", "DWELL": 0.5}).encode(), b"%d" % number)
        for number in range(many)
    ]
    with closing(EmbeddedLog(Path(folder))) as log:
        timer = SystemTimer()
        send_on(Schedule(timer.now() + SECOND, _TIMES, 1 << 30), lambda _: log.append([Append("clicks", rows)]), timer)
