"""Topics: what there is, what a topic holds, making and changing one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args, get_type_hints

from headrace.access.grants import Deed, Kind
from headrace.access.grants import topic as thing
from headrace.contracts import INTERNAL, TOPIC_OPTIONS, Log, Topic, TopicSpec
from headrace.errors import BadTopicName, BadTopicOption, TopicInUse, UnknownTopic
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.stats import held_by_partition
from headrace.schema import Schema
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.route import Be, May, Route
from headrace.serve.api.site import Site
from headrace.settings import Size, duration_text, parse_duration, parse_size


@dataclass(frozen=True)
class Partition:
    """`rows` and `bytes` are null on Kafka, whose offsets also count other things."""

    partition: int
    start: int
    end: int
    rows: int | None
    bytes: int | None


@dataclass(frozen=True)
class Described:
    name: str
    created_at: int
    schema: str
    options: dict[str, Any]
    partitions: list[Partition]


@dataclass(frozen=True)
class Listed:
    name: str
    partitions: int
    schema: str
    created_at: int


@dataclass(frozen=True, kw_only=True)
class Named:
    topic: str = in_path("The topic's name.")


@dataclass(frozen=True, kw_only=True)
class New:
    name: str = in_body("The topic's name.")
    options: dict[str, Any] | None = in_body("Its options; what is left out has its default.", None)


@dataclass(frozen=True, kw_only=True)
class Change(Named):
    options: dict[str, Any] = in_body("Options that change; null is no limit.")


# -- what is asked --------------------------------------------------------------------------------------------------


def list_topics(site: Site) -> list[Listed]:
    """All topics, but for the system's own."""
    topics = [t for t in site.log.topics() if site.rights.may(Deed.READ, thing(t.name))]
    return [Listed(t.name, t.partitions, _schema(t), t.created_at) for t in topics]


def get_topic(site: Site, asked: Named) -> Described:
    """One topic: its options, and the offsets, rows and bytes of each partition."""
    return _described(site.log, own_topic(site.log, asked.topic))


def create_topic(site: Site, asked: New) -> Described:
    """Create a topic."""
    if asked.name.startswith(INTERNAL):
        raise BadTopicName(
            f'"{asked.name}" begins with "{INTERNAL}"', fix="such names are the system's own; take another"
        )
    return _described(site.log, site.log.create_topic(asked.name, TopicSpec(**_options(asked.options or {}))))


def alter_topic(site: Site, asked: Change) -> Described:
    """Change options of a topic. Partitions may grow; a schema may gain columns, and wider ones."""
    topic, options = own_topic(site.log, asked.topic), _options(asked.options)
    if any(_shrinks(getattr(topic.spec, name), options[name]) for name in _KEEPING & options.keys()):
        site.rights.check(Deed.DROP, thing(topic.name))  # records go by it
    site.note("topic-altered", topic=topic.name, options={name: _told(value) for name, value in options.items()})
    return _described(site.log, site.log.alter_topic(asked.topic, **options))


_KEEPING = {"retention_time", "retention_bytes", "compact"}


def _shrinks(before: Any, after: Any) -> bool:
    """None is no limit."""
    return after is not None and after is not False and (before is None or before is False or after < before)


def delete_topic(site: Site, asked: Named) -> None:
    """Delete a topic with all its records. One that a stream, a table or a query uses is refused."""
    own_topic(site.log, asked.topic)
    users = sorted(name for name, source in site.node.catalog.sources.items() if source.topic == asked.topic)
    if users:
        raise TopicInUse(f'topic "{asked.topic}" is that of {", ".join(users)}', fix="drop these first")
    site.note("topic-deleted", topic=asked.topic)
    site.log.delete_topic(asked.topic)


ROUTES = (
    Route("GET", "/topics", list_topics, needs=Be.KNOWN),
    Route("POST", "/topics", create_topic, 201, needs=May(Deed.CREATE, Kind.TOPIC, "name")),
    Route("GET", "/topics/{topic}", get_topic, needs=May(Deed.READ, Kind.TOPIC, "topic")),
    Route("PATCH", "/topics/{topic}", alter_topic, needs=May(Deed.CREATE, Kind.TOPIC, "topic")),
    Route("DELETE", "/topics/{topic}", delete_topic, 204, needs=May(Deed.DROP, Kind.TOPIC, "topic")),
)


def own_topic(log: Log, name: str) -> Topic:
    """The topic, unless it is one of the system's own: what lies in these is for nobody else."""
    if name.startswith(INTERNAL):
        raise UnknownTopic(f'topic "{name}" is the system\'s own', fix="GET /api/v1/topics lists all others")
    return log.topic(name)


# -- how it is told -------------------------------------------------------------------------------------------------


def _described(log: Log, topic: Topic) -> Described:
    options = {f.name: _told(getattr(topic.spec, f.name)) for f in dataclasses.fields(TopicSpec)}
    return Described(topic.name, topic.created_at, _schema(topic), options, _partitions(log, topic.name))


def _schema(topic: Topic) -> str:
    return "raw" if topic.schema.is_raw else str(topic.schema)


def _told(value: Any) -> Any:
    if isinstance(value, Schema):
        return "raw" if value.is_raw else str(value)
    return duration_text(value) if isinstance(value, timedelta) else value


def _partitions(log: Log, topic: str) -> list[Partition]:
    held: Mapping[int, tuple[int | None, int | None]] = {}
    if isinstance(log, EmbeddedLog):
        held = held_by_partition(log, topic)
    nothing = (None, None)
    return [Partition(p, *bounds, *held.get(p, nothing)) for p, bounds in sorted(log.bounds(topic).items())]


# -- options --------------------------------------------------------------------------------------------------------

_HINTS = get_type_hints(TopicSpec)
_READERS = {timedelta: parse_duration, Size: parse_size, Schema: Schema.parse}


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: _option(name, value) for name, value in given.items()}
    kind, _, of = options.get("partitioner", "").partition(":")
    if of and kind != "priority":  # who may send requests may not say which code is run
        raise BadTopicOption("a partitioner from a module cannot be set from afar", fix="use `headrace topic`")
    return options


def _option(name: str, value: Any) -> Any:
    """Durations and sizes may be texts, like `7d` and `5 GB`, or numbers: of seconds, and of bytes."""
    if name not in _HINTS:
        raise BadTopicOption(f'topics have no option "{name}"', fix=f"options are: {', '.join(TOPIC_OPTIONS)}")
    kinds = get_args(_HINTS[name]) or (_HINTS[name],)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    try:
        return _READERS[kind](str(value)) if kind in _READERS else _exactly(kind, value)
    except ValueError as error:
        raise BadTopicOption(f'option "{name}" cannot be {value!r}: {error}', fix=TOPIC_OPTIONS[name]) from None


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"it must be {kind.__name__}")
    return value
