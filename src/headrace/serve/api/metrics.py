"""Metrics of the server, in the text format of Prometheus.

Labels are only names of topics, partitions and queries. The number of series per metric is limited; another metric
counts the series that are left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.access.grants import Privilege
from headrace.access.grants import topic_resource as thing
from headrace.contracts import Bounds
from headrace.control.queries.status import STATES, QueryStatus, query_statuses
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, RawResponse, Route

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 2_000
"""Maximum series of one metric."""
GAUGE, COUNTER = "gauge", "counter"
Series = Iterator[tuple[Mapping[str, str], float]]


@dataclass(frozen=True)
class MetricsSample:
    """The measured values at one moment."""

    queries: list[QueryStatus]
    bounds: dict[str, dict[int, Bounds]]
    readers: int


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    doc: str
    series: Callable[[MetricsSample], Series]


def render_metrics(site: RequestContext) -> RawResponse:
    """Get all metrics, in the text format of Prometheus."""
    look, left_out, text = _look(site), 0, list[str]()
    for metric in METRICS:
        lines = [f"{metric.name}{_labels(labels)} {_number(value)}" for labels, value in metric.series(look)]
        left_out += max(0, len(lines) - MAX_SERIES)
        text += [f"# HELP {metric.name} {metric.doc}", f"# TYPE {metric.name} {metric.kind}", *lines[:MAX_SERIES]]
    text += ["# HELP headrace_series_left_out Series that were too many.", "# TYPE headrace_series_left_out gauge"]
    return RawResponse("\n".join([*text, f"headrace_series_left_out {left_out}", ""]).encode(), PROMETHEUS_TYPE)


def _look(site: RequestContext) -> MetricsSample:
    bounds = {name: found for name, found in site.bounds().items() if site.rights.may(Privilege.READ, thing(name))}
    return MetricsSample(query_statuses(site.node, site.watch, site.rights), bounds, site.waking.readers)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


# -- metrics --------------------------------------------------------------------------------------------------------


def _bounds(which: int) -> Callable[[MetricsSample], Series]:
    def series(look: MetricsSample) -> Series:
        for topic, partitions in look.bounds.items():
            for partition, bounds in sorted(partitions.items()):
                yield {"topic": topic, "partition": str(partition)}, bounds[which]

    return series


def _of_queries(value: Callable[[QueryStatus], float | None]) -> Callable[[MetricsSample], Series]:
    def series(look: MetricsSample) -> Series:
        for one in look.queries:
            if (number := value(one)) is not None:
                yield {"query": one.name}, number

    return series


def _states(look: MetricsSample) -> Series:
    for state in STATES:
        yield {"state": state}, sum(one.state == state for one in look.queries)


def _single(value: Callable[[MetricsSample], float]) -> Callable[[MetricsSample], Series]:
    def series(look: MetricsSample) -> Series:
        yield {}, value(look)

    return series


def _resident(_: MetricsSample) -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files(_: MetricsSample) -> int:
    return len(os.listdir("/proc/self/fd"))


def _threads(_: MetricsSample) -> int:
    return threading.active_count()


def _cpu(_: MetricsSample) -> float:
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
ROUTE = Route("GET", "/metrics", render_metrics, types=(PROMETHEUS_TYPE,), needs=AccessLevel.KNOWN)
