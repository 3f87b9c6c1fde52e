"""Metrics of the server, in the text format of Prometheus.

Labels are only names of topics, partitions and queries. The number of series per metric is limited; another metric
counts the series that are left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headrace.access.grants import Privilege, topic_resource
from headrace.contracts import Bounds
from headrace.control.status import STATES, QueryStatus, query_statuses
from headrace.long_waits import LONG_WAITS, WaitStatistics
from headrace.serve.admission.fair_queue import FairQueue
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, RawResponse, Route
from headrace.serve.http.limits import REJECTIONS

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 2_000
"""Maximum series of one metric."""
LabelValues = tuple[str, ...]
Series = Iterable[tuple[LabelValues, float]]
MetricFamily = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True)
class MetricsSample:
    """The measured values at one moment."""

    queries: list[QueryStatus]
    bounds: dict[str, dict[int, Bounds]]
    readers: int
    queues: Collection[FairQueue]
    above_quota: int
    failures: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Metric:
    family: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    help: str
    series: Callable[[MetricsSample], Series]
    labels: LabelValues = ()


def render_metrics(context: RequestContext) -> RawResponse:
    """Get all metrics, in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)  # per request: the rights of the caller limit the series
    registry.register(MetricsCollector(_measure(context)))
    return RawResponse(generate_latest(registry), PROMETHEUS_TYPE)


def _measure(context: RequestContext) -> MetricsSample:
    rights = context.rights
    bounds = {name: of for name, of in context.bounds().items() if rights.may(Privilege.READ, topic_resource(name))}
    queries = query_statuses(context.node, context.sampler, rights)
    readers, queues = context.append_signal.readers, context.admission.queues.values()
    refused, failures = context.quotas.refused, context.node.failure_events.counts
    return MetricsSample(queries, bounds, readers, queues, refused, failures)


class MetricsCollector(Collector):
    """Turns one sample into metric families."""

    def __init__(self, sample: MetricsSample) -> None:
        self._sample = sample

    def collect(self) -> Iterator[MetricFamily]:
        left_out = 0
        for metric in METRICS:
            family = metric.family(metric.name, metric.help, labels=metric.labels)
            for number, (labels, value) in enumerate(metric.series(self._sample)):
                if number < MAX_SERIES:
                    family.add_metric(labels, value)
                else:
                    left_out += 1
            yield family
        yield GaugeMetricFamily("headrace_series_left_out", "Series that were too many.", left_out)


# -- series ---------------------------------------------------------------------------------------------------------


def _end_offsets(sample: MetricsSample) -> Series:
    return _of_partitions(sample, lambda bounds: bounds.end)


def _start_offsets(sample: MetricsSample) -> Series:
    return _of_partitions(sample, lambda bounds: bounds.start)


def _of_partitions(sample: MetricsSample, offset: Callable[[Bounds], int]) -> Series:
    for topic, partitions in sample.bounds.items():
        for partition, bounds in sorted(partitions.items()):
            yield (topic, str(partition)), offset(bounds)


def _states(sample: MetricsSample) -> Series:
    return [((state,), sum(query.state == state for query in sample.queries)) for state in STATES]


def _failures(sample: MetricsSample) -> Series:
    query_names = {query.name for query in sample.queries}
    return [(labels, count) for labels, count in sorted(sample.failures.items()) if labels[0] in query_names]


def _readers(sample: MetricsSample) -> Series:
    return [((), sample.readers)]


def _rejections(_: MetricsSample) -> Series:
    return [((reason,), count) for reason, count in sorted(REJECTIONS.items())]


def _resident_memory(_: MetricsSample) -> Series:
    return [((), int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]


def _open_files(_: MetricsSample) -> Series:
    return [((), len(os.listdir("/proc/self/fd")))]


def _threads(_: MetricsSample) -> Series:
    return [((), threading.active_count())]


def _cpu_seconds(_: MetricsSample) -> Series:
    times = os.times()
    return [((), times.user + times.system)]


def _above_quota(sample: MetricsSample) -> Series:
    return [((), sample.above_quota)]


def _of_work(value: Callable[[FairQueue], float]) -> Callable[[MetricsSample], Series]:
    """A series per class of work."""
    return lambda sample: [((queue.work,), value(queue)) for queue in sample.queues]


def _of_waits(value: Callable[[WaitStatistics], float]) -> Callable[[MetricsSample], Series]:
    """A series per lock or queue that was waited for."""
    return lambda _: [((what,), value(waits)) for what, waits in sorted(LONG_WAITS.statistics().items())]


# -- metrics --------------------------------------------------------------------------------------------------------


def _query_metric(
    family: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    help: str,
    value: Callable[[QueryStatus], float | None],
) -> Metric:
    """A metric with one series per query for which there is a value."""

    def series(sample: MetricsSample) -> Series:
        for query in sample.queries:
            if (number := value(query)) is not None:
                yield (query.name,), number

    return Metric(family, f"headrace_query_{name}", help, series, ("query",))


def _batch_seconds(query: QueryStatus) -> float | None:
    return None if query.batch_ms is None else query.batch_ms / 1000


def _dead_letters(query: QueryStatus) -> int:
    return sum(query.dead_letters.values())


GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily
_PARTITION = ("topic", "partition")
_CLASS = ("class",)
METRICS: tuple[Metric, ...] = (
    Metric(GAUGE, "headrace_topic_end_offset", "One after the last offset of a partition.", _end_offsets, _PARTITION),
    Metric(GAUGE, "headrace_topic_start_offset", "The first offset of a partition.", _start_offsets, _PARTITION),
    Metric(GAUGE, "headrace_queries", "Queries by state.", _states, ("state",)),
    _query_metric(GAUGE, "rate", "Records a second that a query reads.", lambda query: query.rate),
    _query_metric(GAUGE, "lag", "Records that a query has yet to read.", lambda query: query.lag),
    _query_metric(COUNTER, "records_total", "Records read.", lambda query: query.records),
    _query_metric(COUNTER, "written_total", "Records written.", lambda query: query.written),
    _query_metric(COUNTER, "batches_total", "Batches done.", lambda query: query.batches),
    _query_metric(GAUGE, "batch_seconds", "How long the last batch took.", _batch_seconds),
    _query_metric(GAUGE, "state_rows", "Rows in a query's state.", lambda query: query.state_rows),
    _query_metric(COUNTER, "late_total", "Records that came too late.", lambda query: query.late),
    _query_metric(COUNTER, "dead_letters_total", "Records that became dead letters.", _dead_letters),
    _query_metric(GAUGE, "failures", "Failures in a row.", lambda query: query.failures),
    Metric(
        COUNTER,
        "headrace_query_failures_total",
        "Failures of a query since the server's start.",
        _failures,
        ("query", "code"),
    ),
    Metric(GAUGE, "headrace_live_readers", "Who reads topics live.", _readers),
    Metric(GAUGE, "headrace_work_running", "Requests that run.", _of_work(lambda queue: queue.running), _CLASS),
    Metric(GAUGE, "headrace_work_queued", "Requests that wait.", _of_work(lambda queue: queue.queued), _CLASS),
    Metric(
        COUNTER,
        "headrace_work_refused_total",
        "Requests that were refused because they did not fit.",
        _of_work(lambda queue: queue.statistics.refused),
        _CLASS,
    ),
    Metric(
        COUNTER,
        "headrace_work_admitted_total",
        "Requests that got their turn.",
        _of_work(lambda queue: queue.statistics.admitted),
        _CLASS,
    ),
    Metric(
        COUNTER,
        "headrace_work_wait_seconds_total",
        "How long requests have waited for their turn.",
        _of_work(lambda queue: queue.statistics.wait_seconds),
        _CLASS,
    ),
    Metric(COUNTER, "headrace_quota_refused_total", "Requests that were refused above a quota.", _above_quota),
    Metric(
        COUNTER,
        "headrace_long_waits_total",
        "Waits of more than a second for a lock or a queue.",
        _of_waits(lambda waits: waits.count),
        ("what",),
    ),
    Metric(
        GAUGE,
        "headrace_long_wait_max_seconds",
        "The longest wait for a lock or a queue.",
        _of_waits(lambda waits: waits.max_seconds),
        ("what",),
    ),
    Metric(
        COUNTER,
        "headrace_http_rejections_total",
        "Connections, streams and requests that exceed a limit of the protocol.",
        _rejections,
        ("reason",),
    ),
    Metric(GAUGE, "process_resident_memory_bytes", "Memory of the server's process.", _resident_memory),
    Metric(GAUGE, "process_open_fds", "Open files of the server's process.", _open_files),
    Metric(GAUGE, "process_threads", "Threads of Python's in the server's process.", _threads),
    Metric(COUNTER, "process_cpu_seconds_total", "Processor time of the server's process.", _cpu_seconds),
)
ROUTE = Route(
    "GET", "/metrics", render_metrics, types=(PROMETHEUS_TYPE,), needs=AccessLevel.KNOWN, work=WorkClass.HEALTH
)
