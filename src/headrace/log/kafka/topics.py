"""Topics on Kafka: Kafka's own options are topic configuration, the rest is in a compacted internal topic.

`__headrace_topics` holds one JSON entry per topic that headrace created. It is written before the topic is created, so
a crash in between leaves an invisible entry, never a topic without its schema. Topics that other clients created are
raw topics.
"""

# confluent_kafka.admin does not declare what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import orjson
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.clock import Clock, millis
from headrace.contracts import INTERNAL_PREFIX, Topic, TopicSpec
from headrace.errors import BrokerUnreachable, NotOnThisLog, TopicExists, UnknownTopic
from headrace.log.kafka.client import (
    ATTEMPT_TIMEOUT,
    REQUEST_TIMEOUT,
    Client,
    retry_on_election,
    retry_on_unknown_topic,
)
from headrace.log.kafka.compacted_topic import CompactedTopic
from headrace.log.topic_spec import altered_spec, check_new_topic, parse_spec, spec_text, topic_exists, unknown_topic
from headrace.settings import Size

TOPICS_TOPIC = "__headrace_topics"
_FRESH = 2.0  # seconds for which appends and reads trust cached topic metadata
_FOREVER = -1
_NOT_OURS = ("__consumer_offsets", "__transaction_state")
_LATEST_TIME = (1 << 63) - 1


class Topics:
    """The topics of a Kafka cluster."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._entries = CompactedTopic(client, TOPICS_TOPIC)
        self._known: dict[str, tuple[float, Topic]] = {}
        self._lock = threading.Lock()

    def get(self, name: str, *, fresh: bool = False) -> Topic:
        """The topic with that name; unless `fresh`, its metadata may be two seconds old."""
        cached = self._known.get(name)
        if cached and not fresh and time.monotonic() - cached[0] < _FRESH:
            return cached[1]
        topic = self._describe(name) if name not in self._entries.read() else self._describe_ours(name)
        self._known[name] = (time.monotonic(), topic)
        return topic

    def all(self) -> list[Topic]:
        """All topics by name, except internal ones of Kafka and headrace."""
        known = self._metadata().topics
        names = sorted(name for name in known if not name.startswith(INTERNAL_PREFIX))
        if not names:
            return []
        entries, configs = self._entries.read(), self._configs(names)
        return [
            _topic(name, len(known[name].partitions), len(known[name].partitions[0].replicas), configs[name], entries)
            for name in names
            if name in configs and known[name].partitions
        ]

    def create(self, name: str, spec: TopicSpec) -> Topic:
        check_new_topic(name, spec)
        _check_possible(spec)
        with self._lock:
            if name in self._metadata().topics:
                raise topic_exists(name)
            entry = orjson.dumps({"spec": spec_text(spec), "created_at": self._clock.now()})
            before = self._entries.read().get(name)
            self._entries.write(name, entry)
            try:
                self.make(name, spec.partitions, spec.replication, _config(spec))
            except TopicExists:
                # Another process was faster: restore the entry that belongs to the topic, if ours replaced it.
                if self._entries.read().get(name) == entry:
                    self._entries.write(name, before)
                raise topic_exists(name) from None
        return self.get(name, fresh=True)

    def make(self, name: str, partitions: int, replication: int, config: Mapping[str, object]) -> None:
        """Create a topic in Kafka and wait until it is usable."""
        texts = {key: str(value) for key, value in config.items()}
        new_topic = NewTopic(name, partitions, replication, config=texts)
        request = self._client.admin.create_topics([new_topic], request_timeout=REQUEST_TIMEOUT.total_seconds())
        self._client.answer(request[name], f'topic "{name}"')
        self._wait(lambda: _is_ready(self._metadata().topics.get(name), partitions), name)

    def alter(self, name: str, changes: dict[str, Any]) -> Topic:
        with self._lock:
            old = self.get(name, fresh=True)
            spec = altered_spec(old, changes)
            _check_possible(spec)
            entry = orjson.dumps({"spec": spec_text(spec), "created_at": old.created_at})
            self._entries.write(name, entry)
            self._alter_config(name, spec)
            if spec.partitions > old.partitions:
                grown = self._client.admin.create_partitions([NewPartitions(name, spec.partitions)])
                self._client.answer(grown[name], f'topic "{name}"')
                self._wait(lambda: _is_ready(self._metadata().topics.get(name), spec.partitions), name)
        return self.get(name, fresh=True)

    def delete(self, name: str) -> None:
        with self._lock:
            self.get(name, fresh=True)
            request = self._client.admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT.total_seconds())
            self._client.answer(request[name], f'topic "{name}"')
            self._wait(lambda: name not in self._metadata().topics, name)
            self._entries.write(name, None)
            self.forget(name)

    def forget(self, name: str) -> None:
        """Drop cached metadata."""
        self._known.pop(name, None)

    def close(self) -> None:
        self._entries.close()

    @retry_on_unknown_topic
    def _describe_ours(self, name: str) -> Topic:
        return self._describe(name)

    @retry_on_election
    def _describe(self, name: str) -> Topic:
        if name in _NOT_OURS:
            raise unknown_topic(name)
        # Both requests are sent at once; neither creates the topic, as a metadata request might.
        (described,) = self._client.admin.describe_topics(
            TopicCollection([name]), request_timeout=ATTEMPT_TIMEOUT.total_seconds()
        ).values()
        (config,) = self._client.admin.describe_configs(
            [_resource(name)], request_timeout=ATTEMPT_TIMEOUT.total_seconds()
        ).values()
        try:
            description = self._client.answer(described)
            settings = self._client.answer(config)
        except UnknownTopic:
            self.forget(name)
            raise unknown_topic(name, self._metadata().topics) from None
        replicas = len(description.partitions[0].replicas)
        return _topic(name, len(description.partitions), replicas, settings, self._entries.read())

    @retry_on_election
    def _metadata(self) -> Any:
        try:
            return self._client.admin.list_topics(timeout=REQUEST_TIMEOUT.total_seconds())
        except KafkaException as error:
            raise self._client.translate(error) from error

    @retry_on_election
    def _configs(self, names: Iterable[str]) -> dict[str, Mapping[str, ConfigEntry]]:
        described = self._client.admin.describe_configs([_resource(name) for name in names])
        answers: dict[str, Mapping[str, ConfigEntry]] = {}
        for resource, future in described.items():
            try:
                answers[resource.name] = self._client.answer(future)
            except UnknownTopic:
                continue  # deleted between the two requests
        return answers

    def _alter_config(self, name: str, spec: TopicSpec) -> None:
        resource = _resource(name)
        for key, value in _config(spec).items():
            resource.add_incremental_config(ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET))
        (done,) = self._client.admin.incremental_alter_configs([resource]).values()
        self._client.answer(done, f'topic "{name}"')

    def _wait(self, is_so: Any, name: str) -> None:
        """Wait until a change has reached the connected broker: the controller responds before the others know."""
        until = time.monotonic() + REQUEST_TIMEOUT.total_seconds()
        while not is_so():
            if time.monotonic() > until:
                raise BrokerUnreachable(f"Kafka at {self._client.servers} did not respond in time", where=name)
            time.sleep(0.01)


def _check_possible(spec: TopicSpec) -> None:
    if spec.archive:
        raise NotOnThisLog('option "archive" is not supported on Kafka', fix="remove archive, or use log=embedded")
    if spec.quota_bytes is not None:
        raise NotOnThisLog('option "quota_bytes" is not supported on Kafka', fix="use retention_bytes, or log=embedded")


def _is_ready(topic: Any, partitions: int) -> bool:
    return (
        topic is not None
        and len(topic.partitions) == partitions
        and all(p.leader >= 0 and p.error is None for p in topic.partitions.values())
    )


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


def _config(spec: TopicSpec) -> dict[str, object]:
    """The part of a spec that Kafka itself implements."""
    removes = spec.retention_time is not None or spec.retention_bytes is not None
    policies = [word for word, on in (("compact", spec.compact), ("delete", removes or not spec.compact)) if on]
    size = spec.retention_bytes
    return {
        "cleanup.policy": ",".join(policies),
        "retention.ms": _FOREVER if spec.retention_time is None else millis(spec.retention_time),
        "retention.bytes": _FOREVER if size is None else size,
        # Kafka removes whole segments, so they must be small enough for the spec's retention.
        "segment.bytes": min(max((size or (1 << 30)) // 4, 1 << 20), 256 << 20),
        "delete.retention.ms": millis(spec.tombstone_time),
        "min.cleanable.dirty.ratio": 0.1,
        # Record sizes are checked before sending (see `stored_rows.prepare_rows`); Kafka's limit applies to stored
        # batches.
        "max.message.bytes": min(2 * spec.max_record_bytes + (2 << 20), (1 << 31) - 1),
        "message.timestamp.after.max.ms": _LATEST_TIME,
        "min.insync.replicas": 2 if spec.replication >= 3 else 1,
    }


def _topic(
    name: str,
    partitions: int,
    replication: int,
    config: Mapping[str, ConfigEntry],
    entries: Mapping[str, bytes],
) -> Topic:
    entry = orjson.loads(entries[name]) if name in entries else None
    has = {key: config_entry.value or "" for key, config_entry in config.items()}
    spec = parse_spec(entry["spec"]) if entry else TopicSpec(max_record_bytes=Size(has["max.message.bytes"]))
    keep, size = int(has["retention.ms"]), int(has["retention.bytes"])
    deletes = "delete" in has["cleanup.policy"]
    spec = dataclasses.replace(
        spec,
        partitions=partitions,
        replication=replication,
        compact="compact" in has["cleanup.policy"],
        retention_time=timedelta(milliseconds=keep) if keep >= 0 and deletes else None,
        retention_bytes=Size(size) if size >= 0 and deletes else None,
        tombstone_time=timedelta(milliseconds=int(has["delete.retention.ms"])),
    )
    return Topic(name, spec, entry["created_at"] if entry else 0)
