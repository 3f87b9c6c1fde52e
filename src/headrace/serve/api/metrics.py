"""The server in numbers, in the text format of Prometheus.

Labels are names of topics, partitions and queries only, and never more than some thousand: what is left out is counted
in a metric of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.access.grants import Deed
from headrace.access.grants import topic as thing
from headrace.contracts import Bounds
from headrace.control.condition import STATES, Condition, conditions
from headrace.serve.api.route import Be, Plain, Route
from headrace.serve.api.site import Site

TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST = 2_000
"""Series of one metric."""
GAUGE, COUNTER = "gauge", "counter"
Series = Iterator[tuple[Mapping[str, str], float]]


@dataclass(frozen=True)
class Look:
    """At one moment."""

    queries: list[Condition]
    bounds: dict[str, dict[int, Bounds]]
    readers: int


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    doc: str
    series: Callable[[Look], Series]


def metrics(site: Site) -> Plain:
    """All metrics."""
    look, left_out, text = _look(site), 0, list[str]()
    for metric in METRICS:
        lines = [f"{metric.name}{_labels(labels)} {_number(value)}" for labels, value in metric.series(look)]
        left_out += max(0, len(lines) - MOST)
        text += [f"# HELP {metric.name} {metric.doc}", f"# TYPE {metric.name} {metric.kind}", *lines[:MOST]]
    text += ["# HELP headrace_series_left_out Series that were too many.", "# TYPE headrace_series_left_out gauge"]
    return Plain("\n".join([*text, f"headrace_series_left_out {left_out}", ""]).encode(), TYPE)


def _look(site: Site) -> Look:
    bounds = {name: found for name, found in site.bounds().items() if site.rights.may(Deed.READ, thing(name))}
    return Look(conditions(site.node, site.watch, site.rights), bounds, site.waking.readers)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


# -- what there is --------------------------------------------------------------------------------------------------


def _bounds(which: int) -> Callable[[Look], Series]:
    def series(look: Look) -> Series:
        for topic, partitions in look.bounds.items():
            for partition, bounds in sorted(partitions.items()):
                yield {"topic": topic, "partition": str(partition)}, bounds[which]

    return series


def _of_queries(value: Callable[[Condition], float | None]) -> Callable[[Look], Series]:
    def series(look: Look) -> Series:
        for one in look.queries:
            if (number := value(one)) is not None:
                yield {"query": one.name}, number

    return series


def _states(look: Look) -> Series:
    for state in STATES:
        yield {"state": state}, sum(one.state == state for one in look.queries)


def _single(value: Callable[[Look], float]) -> Callable[[Look], Series]:
    def series(look: Look) -> Series:
        yield {}, value(look)

    return series


def _resident(_: Look) -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files(_: Look) -> int:
    return len(os.listdir("/proc/self/fd"))


def _threads(_: Look) -> int:
    return threading.active_count()


def _cpu(_: Look) -> float:
    times = os.times()
    return times.user + times.system


METRICS: tuple[Metric, ...] = (
    Metric("headrace_topic_end_offset", COUNTER, "One after the last offset of a partition.", _bounds(1)),
    Metric("headrace_topic_start_offset", COUNTER, "The first offset of a partition.", _bounds(0)),
    Metric("headrace_queries", GAUGE, "Queries by state.", _states),
    Metric("headrace_query_rate", GAUGE, "Records a second that a query reads.", _of_queries(lambda one: one.rate)),
    Metric("headrace_query_lag", GAUGE, "Records that a query has yet to read.", _of_queries(lambda one: one.lag)),
    Metric("headrace_query_records_total", COUNTER, "Records read.", _of_queries(lambda one: one.records)),
    Metric("headrace_query_written_total", COUNTER, "Records written.", _of_queries(lambda one: one.written)),
    Metric("headrace_query_batches_total", COUNTER, "Batches done.", _of_queries(lambda one: one.batches)),
    Metric(
        "headrace_query_batch_seconds",
        GAUGE,
        "How long the last batch took.",
        _of_queries(lambda one: None if one.batch_ms is None else one.batch_ms / 1000),
    ),
    Metric("headrace_query_state_rows", GAUGE, "Rows in a query's state.", _of_queries(lambda one: one.state_rows)),
    Metric("headrace_query_late_total", COUNTER, "Records that came too late.", _of_queries(lambda one: one.late)),
    Metric(
        "headrace_query_dead_letters_total",
        COUNTER,
        "Records that became dead letters.",
        _of_queries(lambda one: sum(one.dead_letters.values())),
    ),
    Metric("headrace_query_failures", GAUGE, "Failures in a row.", _of_queries(lambda one: one.failures)),
    Metric("headrace_live_readers", GAUGE, "Who reads topics live.", _single(lambda look: look.readers)),
    Metric("process_resident_memory_bytes", GAUGE, "Memory of the server's process.", _single(_resident)),
    Metric("process_open_fds", GAUGE, "Open files of the server's process.", _single(_open_files)),
    Metric("process_threads", GAUGE, "Threads of Python's in the server's process.", _single(_threads)),
    Metric("process_cpu_seconds_total", COUNTER, "Processor time of the server's process.", _single(_cpu)),
)
ROUTE = Route("GET", "/metrics", metrics, types=(TYPE,), needs=Be.KNOWN)
