"""Appends generated clicks to the log, in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from headrace.contracts import Ack, Append, Log
from headrace.record import Record

PAGES = ("/", "/search", "/cart", "/checkout", "/login", "/help", "/offers", "/news", "/profile", "/about")
_TICK = 0.1  # seconds between appends


class ClickStream:
    """Appends `rate` clicks per second within the block of `running`; `sent` counts them."""

    def __init__(self, log: Log, rate: int) -> None:
        self.sent = 0
        self._log = log
        self._rate = rate
        self._random = np.random.default_rng(7)
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._append, name="clicks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _append(self) -> None:
        while not self._stop.wait(_TICK):
            clicks = random_clicks(self._random, round(self._rate * _TICK))
            self._log.append([Append("clicks", clicks)], ack=Ack.ALL)
            self.sent += len(clicks)


def random_clicks(random: np.random.Generator, count: int) -> list[Record]:
    """Page popularity differs and drifts over time, so that the results change visibly."""
    weight = 1.2 + np.sin(time.time() / 7 + np.arange(len(PAGES)) * 1.7)
    pages = random.choice(len(PAGES), count, p=weight / weight.sum()).tolist()
    columns = zip(random.integers(0, 100_000, count).tolist(), pages, random.exponential(8.0, count), strict=True)
    return [
        Record(b'{"PAGE":"%b","DWELL":%.3f}' % (PAGES[page].encode(), dwell), b"%d" % visitor)
        for visitor, page, dwell in columns
    ]
