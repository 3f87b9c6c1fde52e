"""Topics: lists, describes, creates, alters and deletes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args, get_type_hints

from headrace.access.grants import Privilege, ResourceType, topic_resource
from headrace.contracts import INTERNAL_PREFIX, TOPIC_OPTIONS, Log, Topic, TopicSpec
from headrace.errors import BadTopicName, BadTopicOption, TopicInUse, UnknownTopic, suggestion
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.stats import usage_by_partition
from headrace.schema import Schema
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, RequiredPrivilege, Route
from headrace.settings import Size, duration_text, parse_duration, parse_size


@dataclass(frozen=True)
class Partition:
    """A partition. `rows` and `bytes` are null on Kafka, whose offsets also count other things."""

    partition: int
    start: int
    end: int
    rows: int | None
    bytes: int | None


@dataclass(frozen=True)
class TopicDescription:
    name: str
    created_at: int
    schema: str
    options: dict[str, Any]
    partitions: list[Partition]


@dataclass(frozen=True)
class TopicSummary:
    name: str
    partitions: int
    schema: str
    created_at: int


@dataclass(frozen=True, kw_only=True)
class TopicRequest:
    topic: str = in_path("The topic's name.")


@dataclass(frozen=True, kw_only=True)
class CreateTopicRequest:
    name: str = in_body("The topic's name.")
    options: dict[str, Any] | None = in_body("Its options; what is left out has its default.", None)


@dataclass(frozen=True, kw_only=True)
class AlterTopicRequest(TopicRequest):
    options: dict[str, Any] = in_body("Options that change; null is no limit.")


# -- requests -------------------------------------------------------------------------------------------------------


def list_topics(context: RequestContext) -> list[TopicSummary]:
    """List all topics, except internal ones."""
    topics = [t for t in context.log.topics() if context.rights.may(Privilege.READ, topic_resource(t.name))]
    return [TopicSummary(t.name, t.partitions, _schema(t), t.created_at) for t in topics]


def get_topic(context: RequestContext, params: TopicRequest) -> TopicDescription:
    """Get one topic: its options, and the offsets, rows and bytes of each partition."""
    return _described(context.log, user_topic(context.log, params.topic))


def create_topic(context: RequestContext, params: CreateTopicRequest) -> TopicDescription:
    """Create a topic."""
    if params.name.startswith(INTERNAL_PREFIX):
        raise BadTopicName(
            f'"{params.name}" begins with "{INTERNAL_PREFIX}"', fix="such names are reserved; choose another"
        )
    topic = context.log.create_topic(params.name, TopicSpec(**_options(params.options or {})))
    context.topic_owners.record(topic, context.rights.principal.name)
    return _described(context.log, topic)


def alter_topic(context: RequestContext, params: AlterTopicRequest) -> TopicDescription:
    """Change options of a topic. Partitions can be added; a schema can gain columns and wider types."""
    topic, options = user_topic(context.log, params.topic), _options(params.options)
    _check_change(context, Privilege.CREATE, topic.name)
    if any(_shrinks(getattr(topic.spec, name), options[name]) for name in _KEEPING & options.keys()):
        _check_change(context, Privilege.DROP, topic.name)  # it deletes records
    context.audit(
        "topic-altered", topic=topic.name, options={name: _option_value(value) for name, value in options.items()}
    )
    return _described(context.log, context.log.alter_topic(params.topic, **options))


_KEEPING = {"retention_time", "retention_bytes", "compact"}


def _shrinks(before: Any, after: Any) -> bool:
    """Whether a limit becomes smaller; None is no limit."""
    return after is not None and after is not False and (before is None or before is False or after < before)


def delete_topic(context: RequestContext, params: TopicRequest) -> None:
    """Delete a topic with all its records. Refused while a stream, a table or a query uses it."""
    _check_change(context, Privilege.DROP, params.topic)
    user_topic(context.log, params.topic)
    users = sorted(name for name, source in context.node.catalog.sources.items() if source.topic == params.topic)
    if users:
        visible = [name for name in users if context.rights.sees(name, params.topic)]
        raise TopicInUse(
            f'topic "{params.topic}" is used by {", ".join(visible) or "a stream or table"}', fix="drop these first"
        )
    context.audit("topic-deleted", topic=params.topic)
    context.log.delete_topic(params.topic)


def _check_change(context: RequestContext, privilege: Privilege, name: str) -> None:
    """Require a privilege to change or delete a topic; a client without credentials must have created it."""
    context.rights.check_change(privilege, topic_resource(name), _owner(context, name))


def _owner(context: RequestContext, name: str) -> str | None:
    """The principal that has created a topic, by a statement or by a request."""
    if (owner := context.node.catalog.owners.get(f"topic {name}")) is not None:
        return owner
    try:
        return context.topic_owners.owner(user_topic(context.log, name))
    except UnknownTopic:
        return None


ROUTES = (
    Route("GET", "/topics", list_topics, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route(
        "POST",
        "/topics",
        create_topic,
        201,
        needs=RequiredPrivilege(Privilege.CREATE, ResourceType.TOPIC, "name"),
        work=WorkClass.STATEMENT,
    ),
    Route(
        "GET",
        "/topics/{topic}",
        get_topic,
        needs=RequiredPrivilege(Privilege.READ, ResourceType.TOPIC, "topic"),
        work=WorkClass.ADMINISTRATION,
    ),
    Route(
        "PATCH",
        "/topics/{topic}",
        alter_topic,
        needs=RequiredPrivilege(Privilege.CREATE, ResourceType.TOPIC, "topic"),
        work=WorkClass.STATEMENT,
    ),
    Route(
        "DELETE",
        "/topics/{topic}",
        delete_topic,
        204,
        needs=AccessLevel.KNOWN,  # it looks at the owner, too
        work=WorkClass.STATEMENT,
    ),
)


def user_topic(log: Log, name: str) -> Topic:
    """The topic, unless it is internal: the contents of internal topics are not exposed."""
    if name.startswith(INTERNAL_PREFIX):
        raise UnknownTopic(
            f'topic "{name}" is an internal topic', fix="GET /api/v1/topics lists the topics that you can use"
        )
    return log.topic(name)


# -- responses ------------------------------------------------------------------------------------------------------


def _described(log: Log, topic: Topic) -> TopicDescription:
    options = {f.name: _option_value(getattr(topic.spec, f.name)) for f in dataclasses.fields(TopicSpec)}
    return TopicDescription(topic.name, topic.created_at, _schema(topic), options, _partitions(log, topic.name))


def _schema(topic: Topic) -> str:
    return "raw" if topic.schema.is_raw else str(topic.schema)


def _option_value(value: Any) -> Any:
    if isinstance(value, Schema):
        return "raw" if value.is_raw else str(value)
    return duration_text(value) if isinstance(value, timedelta) else value


def _partitions(log: Log, topic: str) -> list[Partition]:
    usage: Mapping[int, tuple[int | None, int | None]] = {}
    if isinstance(log, EmbeddedLog):
        usage = usage_by_partition(log, topic)
    nothing = (None, None)
    return [Partition(p, *bounds, *usage.get(p, nothing)) for p, bounds in sorted(log.bounds(topic).items())]


# -- options --------------------------------------------------------------------------------------------------------

_HINTS = get_type_hints(TopicSpec)
_READERS = {timedelta: parse_duration, Size: parse_size, Schema: Schema.parse}


def _options(raw_options: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: _option(name, value) for name, value in raw_options.items()}
    kind, _, of = options.get("partitioner", "").partition(":")
    if of and kind != "priority":  # clients must not choose which code is run
        raise BadTopicOption("a partitioner from a module cannot be set over HTTP", fix="use `headrace topic`")
    return options


def _option(name: str, value: Any) -> Any:
    """Parse an option. Durations and sizes are texts such as `7d` and `5 GB`, or numbers of seconds and of bytes."""
    if name not in _HINTS:
        raise BadTopicOption(
            f'topics have no option "{name}"',
            fix=suggestion(name, TOPIC_OPTIONS, f"options are: {', '.join(TOPIC_OPTIONS)}"),
        )
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
