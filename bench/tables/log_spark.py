"""Cases of table `log` that go through Spark: the scan of a topic, and much data with little memory outside the JVM.

Each function gets its settings, an empty folder and Kafka's address in `work`, fills its topic, then measures.
"""

from __future__ import annotations

from bench.harness.case import Outcome, Work


def scan_embedded(work: Work) -> Outcome:
    """A typed embedded topic, read by Spark through headrace's data source."""
    raise NotImplementedError("the Spark side of spark-scan is not wired yet")


def scan_kafka_json(work: Work) -> Outcome:
    """The same rows as JSON in Kafka, read by Spark's connector and parsed with from_json."""
    raise NotImplementedError("the Spark side of spark-scan is not wired yet")


def through(work: Work) -> Outcome:
    """Append, then consume with Spark; the case leaves java out of the memory that counts."""
    raise NotImplementedError("the Spark side of through-spark is not wired yet")
