"""Metrics in Prometheus' text format, read by a strict reader of it."""

from __future__ import annotations

import re

from headrace.contracts import Append, TopicSpec
from headrace.control.node import Node
from headrace.control.queries.restart_policy import QueryFailure
from headrace.errors import PythonWorkerLost
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.serve.api import metrics
from tests.unit.control.test_node import CLICKS, COUNTS
from tests.unit.serve.api.conftest import Client

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
Samples = dict[tuple[str, str], float]


def parsed(text: str) -> Samples:
    """All samples; refuses what a scraper would, and samples of a metric that do not stand together under its type."""
    assert text.endswith("\n")
    found: Samples = {}
    seen: list[str] = []
    helped = typed = ""
    for line in text[:-1].split("\n"):
        if match := re.fullmatch(rf"# HELP ({NAME}) [^\n]+", line):
            helped = match[1]
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            assert match[1] == helped
            assert helped not in seen
            typed = helped
            seen.append(typed)
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == typed
            assert (sample[1], sample[2] or "") not in found
            labels = ",".join(sorted(re.findall(LABEL, sample[2] or ""), reverse=True))
            found[sample[1], labels] = float(sample[3])
    return found


def scraped(ask: Client) -> Samples:
    status, text, headers = ask.raw("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, metrics.PROMETHEUS_TYPE)
    return parsed(text.decode())


def test_metrics_are_valid_and_count_topics_and_queries(ask: Client, node: Node, log: EmbeddedLog) -> None:
    node.execute(CLICKS + COUNTS + "PAUSE CTAS_COUNTS_1;")
    log.append([Append("clicks", [Record(b"{}")] * 3)])
    found = scraped(ask)
    assert found["headrace_topic_end_offset", 'topic="clicks",partition="0"'] == 3
    assert found["headrace_queries", 'state="paused"'] == 1
    assert found["headrace_query_records_total", 'query="CTAS_COUNTS_1"'] == 0
    assert found["process_resident_memory_bytes", ""] > 1 << 20
    assert found["process_open_fds", ""] > 3
    assert found["headrace_series_left_out", ""] == 0


def test_the_number_of_series_is_bounded(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("wide", TopicSpec(partitions=metrics.MAX_SERIES + 5))
    found = scraped(ask)
    assert sum(name == "headrace_topic_end_offset" for name, _ in found) == metrics.MAX_SERIES
    assert found["headrace_series_left_out", ""] == 10


def test_labels_are_escaped(ask: Client, node: Node) -> None:
    node.execute(CLICKS + "CREATE STREAM `a\"\\b` WITH (kafka_topic='plain') AS SELECT * FROM clicks;")
    queries = [labels for name, labels in scraped(ask) if name == "headrace_query_failures"]
    assert queries == ['query="CSAS_a\\"\\\\b_1"']


def test_failures_are_counted_by_query_and_code(ask: Client, node: Node) -> None:
    node.execute(CLICKS + COUNTS + "PAUSE CTAS_COUNTS_1;")
    lost = QueryFailure(PythonWorkerLost("lost"), 1, 0.0)
    for query in ("CTAS_COUNTS_1", "CTAS_COUNTS_1", "DROPPED"):
        node.failure_events.add(query, lost, None)
    failures = {labels: n for (name, labels), n in scraped(ask).items() if name == "headrace_query_failures_total"}
    assert failures == {'query="CTAS_COUNTS_1",code="python-worker-lost"': 2}
