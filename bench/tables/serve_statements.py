"""Case statements: many queries on one server, of which a few have something to do.

First nobody sends anything: what all of them cost when they are idle. Then rows come for the active ones, at a fixed
rate for each; latency counts from the intended append until the result can be read, in a topic of each query's own.
Memory is that of the server and all its processes, Spark's among them: each page by the share that is theirs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, SystemTimer, millis_since, send_on
from bench.harness.measure import MB, cpu_seconds, tree_pss
from bench.tables.serve_server import Server, server, until
from headrace.contracts import Append, Subscription
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_STATEMENTS = """
CREATE STREAM in{n} (id INT KEY, at BIGINT) WITH (kafka_topic='in{n}', format='JSON', partitions=1);
CREATE STREAM out{n} WITH (kafka_topic='out{n}') AS SELECT id, at FROM in{n} WHERE at > 0;
"""
_TIMES = 10  # appends a second


def statements(work: Work) -> Outcome:
    with server(work.folder / "data", query_suspend_after=work["suspend_after"]) as target:
        for n in range(work["active"] + work["idle"]):
            target.ksql(_STATEMENTS.format(n=n))
        started = time.monotonic()
        until(lambda: _idle_queries(target) == work["active"] + work["idle"], "all are idle", work["patience_seconds"])
        extra = {"settle_seconds": time.monotonic() - started, "idle_percent": _idle(target, work["idle_seconds"])}
        with _watched(target) as memory:
            latencies = _active(work)
    return Outcome(len(latencies), work["seconds"], latencies, {**extra, "tree_pss_mb": memory.peak / MB})


def _idle_queries(target: Server) -> int:
    return sum(query["state"] == "suspended" for query in target.get("/api/v1/queries"))


def _idle(target: Server, seconds: float) -> float:
    """Percent of a core that the whole server uses."""
    before, start = cpu_seconds(target.pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds(target.pid) - before) / (time.monotonic() - start)


@dataclass
class Memory:
    peak: int = 0


@contextmanager
def _watched(target: Server) -> Iterator[Memory]:
    memory, done = Memory(), threading.Event()

    def watch() -> None:
        while not done.wait(2):
            memory.peak = max(memory.peak, tree_pss(target.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield memory
    finally:
        done.set()
        thread.join()


# -- rows for the active ones ---------------------------------------------------------------------------------------


def _active(work: Work) -> list[float]:
    folder = str(work.folder / "data")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, closing(EmbeddedLog(Path(folder))) as log:
        appending = pool.submit(_append, folder, dict(work.settings))
        return _read(log, work, appending)


def _read(log: EmbeddedLog, work: Work, appending: Future[None]) -> list[float]:
    """Waits for all results."""
    latencies, missing = list[float](), round(_whole(work.settings) * work["rate"]) * work["active"]
    warm = round(work["warmup_seconds"] * work["rate"])
    deadline = time.monotonic() + _whole(work.settings) + work["patience_seconds"]
    topics = tuple(f"out{n}" for n in range(work["active"]))
    with closing(log.consumer("bench", Subscription(topics))) as reader:
        while missing:
            if time.monotonic() > deadline or (appending.done() and appending.exception()):
                raise RuntimeError(f"{missing} results have not come")
            for batch in reader.poll(timedelta(seconds=1)):
                now, missing = time.monotonic_ns(), missing - len(batch)
                pairs = zip(batch.rows.column("key"), batch.rows.column("value"), strict=True)
                rows = ((int(key.as_py()), json.loads(value.as_py())["AT"]) for key, value in pairs)
                latencies += [millis_since(at, now) for number, at in rows if number >= warm]
    return latencies


def _whole(settings: Mapping[str, Any]) -> float:
    return settings["warmup_seconds"] + settings["seconds"]


def _append(folder: str, settings: Mapping[str, Any]) -> None:
    with closing(EmbeddedLog(Path(folder))) as log:
        timer, turns = SystemTimer(), iter(range(1 << 60))
        many = settings["rate"] // _TIMES

        def send(intended: int) -> None:
            first = next(turns) * many
            value = json.dumps({"AT": intended}).encode()
            rows = [Record(value, b"%d" % number) for number in range(first, first + many)]
            log.append([Append(f"in{n}", rows) for n in range(settings["active"])])

        send_on(Schedule(timer.now() + SECOND, _TIMES, round(_TIMES * _whole(settings))), send, timer)
