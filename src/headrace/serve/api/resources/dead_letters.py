"""Dead letters: records that could not be processed, with the reason. Each is replayed or discarded once.

Queries and readers write them to topics: the dead letters of topic X, and of the query that writes X, in `X.dead`.
Replaying one appends its original record to the original topic again, for example after the query has been fixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.access.grants import Privilege, ResourceType, topic_resource
from headrace.contracts import INTERNAL_PREFIX, Append, Batch, Log, Topic, dead_letter_topic
from headrace.control.statements.permissions import can_see_query
from headrace.errors import (
    NotReplayable,
    OffsetOutOfRange,
    UnknownDeadLetter,
    UnknownPartition,
    UnknownQuery,
    UnknownTopic,
)
from headrace.log.stored_rows import CLIENT_COLUMNS
from headrace.record import StoredRecord
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.dead_letter_status import DISCARDED, REPLAYED, DeadLetterId
from headrace.serve.api.log_io.partition_reader import PartitionReader
from headrace.serve.api.log_io.positions import format_positions, start_positions
from headrace.serve.api.parameters import in_path, in_query
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, RequiredPrivilege, Route

SUFFIX = dead_letter_topic("")
UNRESOLVED = "open"
_PAGE = 500
_MAX_SCANNED = 20_000
_ORIGINS = (
    re.compile(r"topic (?P<topic>\S+), partition (?P<partition>\d+), offset (?P<offset>\d+)"),
    re.compile(r"(?P<topic>[^/\s]+)/(?P<partition>\d+)/(?P<offset>\d+)"),
)


@dataclass(frozen=True)
class DeadLetterTopic:
    """A dead-letter topic, the topic it belongs to, and the queries that write it."""

    topic: str
    belongs_to: str
    dead_letters: int
    queries: list[str]


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter. `state` is open, replayed or discarded."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    state: str
    code: str | None
    reason: str | None
    where: str | None
    query: str | None
    key: str | None
    value: str | None


@dataclass(frozen=True)
class DeadLetterPage:
    dead_letters: list[DeadLetter]
    next: str


@dataclass(frozen=True)
class DeadLetterResolution:
    """How a dead letter was resolved, and where its record was appended if it was replayed."""

    dead_letter: str
    state: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class ListTopicsRequest:
    query: str | None = in_query("Only those of a query.", None)


@dataclass(frozen=True, kw_only=True)
class ListDeadLettersRequest:
    topic: str = in_path("A topic of dead letters.")
    query: str | None = in_query("Only those of a query.", None)
    code: str | None = in_query("Only those with this code.", None)
    state: str = in_query("open, replayed, discarded or all.", UNRESOLVED)
    start: str = in_query(
        "Where to start: beginning, end, a time, -10m, or what `next` said.", "beginning", name="from"
    )
    limit: int = in_query("Maximum number of dead letters to return.", 100, most=1_000)


@dataclass(frozen=True, kw_only=True)
class DeadLetterRequest:
    topic: str = in_path("A topic of dead letters.")
    partition: int = in_path("The dead letter's partition.")
    offset: int = in_path("Its offset.")


# -- reading --------------------------------------------------------------------------------------------------------


def list_dead_letter_topics(context: RequestContext, params: ListTopicsRequest) -> list[DeadLetterTopic]:
    """List the dead-letter topics, with the number of dead letters in each."""
    visible = [
        one.query for one in context.node.supervisor.queries.values() if can_see_query(context.rights, one.query)
    ]
    queries = {query.id: dead_letter_topic(query.sink.topic) for query in visible}
    if params.query is not None and params.query not in queries:
        raise UnknownQuery(f'query "{params.query}" does not exist', fix="GET /api/v1/queries lists them")
    names = [topic.name for topic in context.log.topics() if topic.name.endswith(SUFFIX)]
    names = [name for name in names if context.rights.may(Privilege.READ, topic_resource(name))]
    selected = [name for name in names if params.query is None or queries[params.query] == name]
    return [
        DeadLetterTopic(n, n.removesuffix(SUFFIX), _count(context.log, n), [q for q in queries if queries[q] == n])
        for n in selected
    ]


def list_dead_letters(context: RequestContext, params: ListDeadLettersRequest) -> DeadLetterPage:
    """List dead letters with their reasons. Continue from `next` until it no longer changes."""
    topic = _dead_letter_topic(context.log, params.topic)
    reading = PartitionReader(context.log, start_positions(context.log, topic.name, params.start))
    dead_letters: list[DeadLetter] = []
    scanned = 0
    while len(dead_letters) < params.limit and scanned < _MAX_SCANNED:
        batches = reading.page(min(_PAGE, params.limit - len(dead_letters)))
        if not batches:
            break
        scanned += sum(map(len, batches))
        dead_letters += [
            dead_letter
            for batch in batches
            for dead_letter in dead_letters_in(context, topic, batch)
            if _is_wanted(dead_letter, params)
        ]
    return DeadLetterPage(dead_letters, format_positions(reading.positions))


def get_dead_letter(context: RequestContext, params: DeadLetterRequest) -> DeadLetter:
    """Get one dead letter."""
    return next(
        dead_letters_in(context, _dead_letter_topic(context.log, params.topic), _read_dead_letter(context.log, params))
    )


def _dead_letter_topic(log: Log, name: str) -> Topic:
    if not name.endswith(SUFFIX):
        raise UnknownTopic(f'"{name}" is not a dead-letter topic', fix=f'dead-letter topics end with "{SUFFIX}"')
    return log.topic(name)


def _count(log: Log, topic: str) -> int:
    return sum(bounds.end - bounds.start for bounds in log.bounds(topic).values())


def dead_letters_in(context: RequestContext, topic: Topic, batch: Batch) -> Iterator[DeadLetter]:
    records = list(batch.records())
    resolutions = context.resolutions.of([_id(topic, record.partition, record.offset) for record in records])
    for record, resolution in zip(records, resolutions, strict=True):
        yield _describe(record, resolution or UNRESOLVED)


def _describe(record: StoredRecord, state: str) -> DeadLetter:
    headers = {n: _text(record.record.header(n)) for n in ("code", "reason", "where", "origin", "query")}
    where = headers.pop("where") or headers.pop("origin", None)
    place = record.topic, record.partition, record.offset, record.timestamp
    return DeadLetter(
        *place,
        state,
        headers["code"],
        headers["reason"],
        where,
        headers["query"],
        _text(record.key),
        _text(record.value),
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _is_wanted(dead_letter: DeadLetter, params: ListDeadLettersRequest) -> bool:
    pairs = ((params.query, dead_letter.query), (params.code, dead_letter.code), (params.state, dead_letter.state))
    return all(expected in (None, "all", actual) for expected, actual in pairs)


def _id(topic: Topic, partition: int, offset: int) -> DeadLetterId:
    return DeadLetterId(topic.name, topic.created_at, partition, offset)


def _read_dead_letter(log: Log, params: DeadLetterRequest) -> Batch:
    try:
        batch = log.read(params.topic, params.partition, params.offset, max_records=1)
    except (OffsetOutOfRange, UnknownPartition):
        batch = None
    if not batch or batch.rows.column("$offset")[0].as_py() != params.offset:
        raise UnknownDeadLetter(
            f"no dead letter exists at {params.topic}/{params.partition}/{params.offset}",
            fix=f"GET /api/v1/dead-letters/{params.topic} lists them",
        )
    return batch


# -- resolving ------------------------------------------------------------------------------------------------------


def replay_dead_letter(context: RequestContext, params: DeadLetterRequest) -> DeadLetterResolution:
    """Replay a dead letter, once: append its original record to its topic, with its headers and timestamp."""
    topic = _dead_letter_topic(context.log, params.topic)
    dead_letter = next(_read_dead_letter(context.log, params).records())
    origin = _origin(context.log, dead_letter)
    context.rights.check(Privilege.WRITE, topic_resource(origin.topic))
    context.audit("dead-letter-replayed", dead_letter=f"{params.topic}/{params.partition}/{params.offset}")
    rows = origin.rows.select([n for n in origin.rows.schema.names if not n.startswith("$") or n in CLIENT_COLUMNS])
    resolved = _id(topic, params.partition, params.offset)
    (appended,) = context.resolutions.settle(resolved, REPLAYED, [Append(origin.topic, rows)])
    return DeadLetterResolution(str(resolved), REPLAYED, appended.topic, appended.partition, appended.offset)


def discard_dead_letter(context: RequestContext, params: DeadLetterRequest) -> DeadLetterResolution:
    """Discard a dead letter. It stays in its topic until retention removes it."""
    topic = _dead_letter_topic(context.log, params.topic)
    _read_dead_letter(context.log, params)
    resolved = _id(topic, params.partition, params.offset)
    context.resolutions.settle(resolved, DISCARDED)
    return DeadLetterResolution(str(resolved), DISCARDED)


def _origin(log: Log, dead_letter: StoredRecord) -> Batch:
    """The original record of a dead letter, which must still exist."""
    where = _text(dead_letter.record.header("where") or dead_letter.record.header("origin")) or ""
    match = next((candidate for pattern in _ORIGINS if (candidate := pattern.fullmatch(where))), None)
    if match is None or match["topic"].startswith(
        INTERNAL_PREFIX
    ):  # a writer of dead letters must not write internal topics
        raise _lost(dead_letter, f'its origin "{where}" is not a record of a topic')
    place: tuple[str, int, int] = match["topic"], int(match["partition"]), int(match["offset"])
    try:
        batch = log.read(*place, max_records=1)
    except (OffsetOutOfRange, UnknownTopic, UnknownPartition):
        raise _lost(dead_letter, f"the record at {where} was removed") from None
    if not len(batch) or batch.rows.column("$offset")[0].as_py() != place[2] or not _is_same(log, batch, dead_letter):
        raise _lost(dead_letter, f"the record at {where} was removed")
    return batch


def _is_same(log: Log, batch: Batch, dead_letter: StoredRecord) -> bool:
    """A dead letter of an undecodable record contains its bytes: in a recreated topic, the record at that offset may
    differ.
    """
    if not log.topic(batch.topic).schema.is_raw or dead_letter.record.header("code") != b"bad-record":
        return True
    return next(batch.records()).value == dead_letter.value


def _lost(dead_letter: StoredRecord, what: str) -> NotReplayable:
    place = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
    return NotReplayable(
        f"dead letter {place} cannot be replayed: {what}",
        where=place,
        fix="append the record manually, or discard the dead letter",
    )


_READ, _CONTROL = (
    RequiredPrivilege(Privilege.READ, ResourceType.TOPIC, "topic"),
    RequiredPrivilege(Privilege.CONTROL, ResourceType.TOPIC, "topic"),
)
ROUTES: tuple[Any, ...] = (
    Route("GET", "/dead-letters", list_dead_letter_topics, needs=AccessLevel.KNOWN, work=WorkClass.PULL),
    Route("GET", "/dead-letters/{topic}", list_dead_letters, needs=_READ, work=WorkClass.PULL),
    Route("GET", "/dead-letters/{topic}/{partition}/{offset}", get_dead_letter, needs=_READ, work=WorkClass.PULL),
    Route(
        "POST",
        "/dead-letters/{topic}/{partition}/{offset}/replay",
        replay_dead_letter,
        needs=_READ,
        work=WorkClass.INSERT,
    ),
    Route(
        "DELETE",
        "/dead-letters/{topic}/{partition}/{offset}",
        discard_dead_letter,
        needs=_CONTROL,
        work=WorkClass.INSERT,
    ),
)
