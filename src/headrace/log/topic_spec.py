"""Rules for topics that hold on both logs: names, options, changes, and the stored text of a spec."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from headrace.clock import millis
from headrace.contracts import INTERNAL_PREFIX, TOPIC_NAME, Log, Subscription, Topic, TopicSpec
from headrace.errors import (
    BadFilter,
    BadTopicName,
    BadTopicOption,
    IncompatibleSchema,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    suggestion,
)
from headrace.log.partitioners import partitioner
from headrace.schema import Schema, evolve
from headrace.settings import Size

MAX_PARTITIONS = 10_000


def check_new_topic(name: str, spec: TopicSpec) -> None:
    """Refuse invalid names and options."""
    if not TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise BadTopicName(
            f'"{name[:80]}" is not a valid topic name', fix="use 1 to 249 letters, digits, dots, dashes and underscores"
        )
    check_spec(spec)


def check_spec(spec: TopicSpec) -> None:
    """Refuse options that are invalid or contradict each other."""
    if not 1 <= spec.partitions <= MAX_PARTITIONS:
        raise BadTopicOption(f"a topic cannot have {spec.partitions} partitions", fix=f"choose 1 to {MAX_PARTITIONS}")
    for name in ("retention_time", "retention_bytes", "quota_bytes", "max_record_bytes"):
        value = getattr(spec, name)
        if value is not None and not value > type(value)(0):
            raise BadTopicOption(f"{name} must be greater than zero", fix="omit it for no limit")
    if spec.compact and not spec.schema.key:
        raise BadTopicOption("a compacted topic requires a key", fix='mark a column with "key" in the schema')
    if spec.archive and spec.retention_time is None and spec.retention_bytes is None:
        raise BadTopicOption("archive requires a retention", fix="set retention_time or retention_bytes")
    partitioner(spec.partitioner)


def altered_spec(topic: Topic, changes: dict[str, Any]) -> TopicSpec:
    """The spec after a change; raises if the change is not allowed."""
    known = {field.name for field in dataclasses.fields(TopicSpec)}
    for name in changes:
        if name not in known:
            raise BadTopicOption(
                f'topics have no option "{name}"',
                fix=suggestion(name, known, f"options are: {', '.join(sorted(known))}"),
            )
    spec = dataclasses.replace(topic.spec, **changes)
    where = f'topic "{topic.name}"'
    if spec.partitions < topic.spec.partitions:
        raise BadTopicOption(
            f"{where} has {topic.spec.partitions} partitions and cannot have fewer",
            fix="create a new topic and copy the records",
        )
    if spec.replication != topic.spec.replication:
        raise BadTopicOption(f"{where} cannot change its replication", fix="use Kafka's own tools to move replicas")
    if spec.schema != topic.schema:
        if topic.schema.is_raw != spec.schema.is_raw:
            raise IncompatibleSchema(f"{where} cannot change between raw and typed", fix="create a new topic")
        evolve(topic.schema, spec.schema)
    check_spec(spec)
    return spec


def unknown_topic(name: str, known: Iterable[str] = ()) -> UnknownTopic:
    """The error for a missing topic; `known` are the existing ones."""
    users = [one for one in known if not one.startswith(INTERNAL_PREFIX)]
    return UnknownTopic(f'topic "{name}" does not exist', fix=suggestion(name, users, f"headrace topic create {name}"))


def unknown_group(name: str, known: Iterable[str]) -> UnknownGroup:
    """The error for a missing consumer group; `known` are the existing ones."""
    fix = suggestion(name, known, "`headrace group list` shows the existing ones")
    return UnknownGroup(f'group "{name}" does not exist', fix=fix)


def topic_exists(name: str) -> TopicExists:
    return TopicExists(f'topic "{name}" already exists', fix="choose another name, or alter or delete it")


def spec_text(spec: TopicSpec) -> str:
    """The spec as JSON."""
    return json.dumps({f.name: _plain(getattr(spec, f.name)) for f in dataclasses.fields(spec)})


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return millis(value)
    return str(value) if isinstance(value, Schema) else value


def parse_spec(text: str) -> TopicSpec:
    """Read the text of `spec_text`; options that were added later get their defaults."""
    options = json.loads(text)
    names = {f.name for f in dataclasses.fields(TopicSpec)}
    return TopicSpec(**{name: _typed(name, value) for name, value in options.items() if name in names})


def _typed(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "schema":
        return Schema.parse(value)
    if name.endswith("_time"):
        return timedelta(milliseconds=value)
    return Size(value) if name.endswith("_bytes") else value


def subscription_pattern(subscription: Subscription) -> re.Pattern[str] | None:
    """The pattern of topic names in a subscription, if it has one; raises if the subscription is invalid."""
    if not subscription.topics and subscription.pattern is None:
        raise BadFilter("a subscription has neither topics nor a pattern", fix="set at least one of them")
    try:
        return re.compile(subscription.pattern) if subscription.pattern is not None else None
    except re.error as error:
        raise BadFilter(
            f'pattern "{subscription.pattern}" is not a valid regular expression: {error}',
            fix='for example "orders-.*"',
        ) from error


def ensure_topic(log: Log, name: str, spec: TopicSpec | None = None) -> None:
    """Create a topic unless it exists; safe to call concurrently."""
    try:
        log.topic(name)
    except UnknownTopic:
        with contextlib.suppress(TopicExists):
            log.create_topic(name, spec or TopicSpec())
