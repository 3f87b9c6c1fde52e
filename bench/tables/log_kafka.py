"""Kafka as the peer of table `log`: a cluster of one node for the whole table, and its clients.

Kafka acknowledges with acks=all when the record is in the page caches of all in-sync replicas, here of one; it does
not sync to the disk, as the embedded log does before it acknowledges.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness.case import Work
from headrace.log.kafka.local_cluster import LocalCluster

# The broker for tests is configured to start fast and to stay small. A fair measurement needs the options of
# Kafka's own start script: 1 GB, G1 and the optimizing compiler. The JVM reads this variable after the command line.
_JVM = "-Xms1g -Xmx1g -XX:-UseSerialGC -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:TieredStopAtLevel=4"


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """The service: gives the bootstrap address."""
    before = os.environ.get("_JAVA_OPTIONS")
    os.environ["_JAVA_OPTIONS"] = _JVM
    try:
        cluster = LocalCluster.start(folder / "kafka")
    finally:
        os.environ.pop("_JAVA_OPTIONS")
        os.environ.update({"_JAVA_OPTIONS": before} if before is not None else {})
    with cluster:
        yield cluster.bootstrap


def create_topic(work: Work, partitions: int = 1) -> str:
    """A topic of its own for each run."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": work.services["kafka"]})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result()
    return name


def delete_topic(work: Work, name: str) -> None:
    """Deletes the topic to make room for the next run."""
    admin = AdminClient({"bootstrap.servers": work.services["kafka"]})
    for future in admin.delete_topics([name]).values():
        future.result()


def producer(servers: str, **options: Any) -> Producer:
    """Options are Kafka's, with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Producer({"bootstrap.servers": servers, "acks": "all", **named})


def send_and_wait(sender: Producer, topic: str, value: bytes, key: bytes) -> None:
    """Sends one record and waits for its acknowledgement."""
    answers: list[Any] = []
    sender.produce(topic, value=value, key=key, on_delivery=lambda error, _: answers.append(error))
    while not answers:
        sender.poll(1)
    if answers[0] is not None:
        raise KafkaException(answers[0])


def consumer(servers: str, topic: str, group: str) -> Consumer:
    """A member of a group that has its partitions and starts at the beginning."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    while not reader.assignment():
        reader.poll(0.1)
    return reader


def stored(servers: str, topic: str, partitions: int) -> int:
    """How many records the topic has."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "bench-count"})
    try:
        bounds = [reader.get_watermark_offsets(TopicPartition(topic, p), timeout=10) for p in range(partitions)]
    finally:
        reader.close()
    return sum(end - start for start, end in bounds)
