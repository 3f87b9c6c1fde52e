"""Dead letters: what queries and readers could not use, with the reason; replayed or discarded, each once.

They lie in topics: those of topic X, and of the query that writes X, in `X.dead`. To replay one is to append the record
that it is of to that record's topic again, for instance when the query has been mended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.access.grants import Deed, Kind
from headrace.access.grants import topic as thing
from headrace.contracts import INTERNAL, Append, Batch, Log, Topic, dead_letter_topic
from headrace.control.permits import sees_query
from headrace.errors import NotReplayable, OffsetOutOfRange, UnknownLetter, UnknownPartition, UnknownQuery, UnknownTopic
from headrace.log.rows import GIVEN
from headrace.record import StoredRecord
from headrace.serve.api.fates import DISCARDED, REPLAYED, Letter
from headrace.serve.api.parameters import in_path, in_query
from headrace.serve.api.positions import position_text, starts
from headrace.serve.api.reading import Reading
from headrace.serve.api.route import Be, May, Route
from headrace.serve.api.site import Site

SUFFIX = dead_letter_topic("")
OPEN = "open"
_PAGE = 500
_MOST_LOOKED_AT = 20_000
_ORIGINS = (
    re.compile(r"topic (?P<topic>\S+), partition (?P<partition>\d+), offset (?P<offset>\d+)"),
    re.compile(r"(?P<topic>[^/\s]+)/(?P<partition>\d+)/(?P<offset>\d+)"),
)


@dataclass(frozen=True)
class Box:
    """A topic of dead letters, the topic they are of, and the queries that write it."""

    topic: str
    of: str
    letters: int
    queries: list[str]


@dataclass(frozen=True)
class Shown:
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
class Page:
    letters: list[Shown]
    next: str


@dataclass(frozen=True)
class Settled:
    """Where the record went, if it was replayed."""

    letter: str
    state: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Boxes:
    query: str | None = in_query("Only those of a query.", None)


@dataclass(frozen=True, kw_only=True)
class Letters:
    topic: str = in_path("A topic of dead letters.")
    query: str | None = in_query("Only those of a query.", None)
    code: str | None = in_query("Only those with this code.", None)
    state: str = in_query("open, replayed, discarded or all.", OPEN)
    start: str = in_query(
        "Where to begin: beginning, end, a time, -10m, or what `next` said.", "beginning", name="from"
    )
    limit: int = in_query("At most so many letters.", 100, most=1_000)


@dataclass(frozen=True, kw_only=True)
class One:
    topic: str = in_path("A topic of dead letters.")
    partition: int = in_path("The letter's partition.")
    offset: int = in_path("Its offset.")


# -- reading --------------------------------------------------------------------------------------------------------


def list_boxes(site: Site, asked: Boxes) -> list[Box]:
    """Topics of dead letters, with how many lie there."""
    seen = [one.query for one in site.node.supervisor.queries.values() if sees_query(site.rights, one.query)]
    queries = {query.id: dead_letter_topic(query.sink.topic) for query in seen}
    if asked.query is not None and asked.query not in queries:
        raise UnknownQuery(f'there is no query "{asked.query}"', fix="GET /api/v1/queries lists them")
    names = [topic.name for topic in site.log.topics() if topic.name.endswith(SUFFIX)]
    names = [name for name in names if site.rights.may(Deed.READ, thing(name))]
    wanted = [name for name in names if asked.query is None or queries[asked.query] == name]
    return [
        Box(n, n.removesuffix(SUFFIX), _count(site.log, n), [q for q in queries if queries[q] == n]) for n in wanted
    ]


def list_letters(site: Site, asked: Letters) -> Page:
    """Dead letters with their reasons. Go on from `next` until it stays the same."""
    topic = _box(site.log, asked.topic)
    reading = Reading(site.log, starts(site.log, topic.name, asked.start))
    found: list[Shown] = []
    looked_at = 0
    while len(found) < asked.limit and looked_at < _MOST_LOOKED_AT:
        batches = reading.page(min(_PAGE, asked.limit - len(found)))
        if not batches:
            break
        looked_at += sum(map(len, batches))
        found += [letter for batch in batches for letter in letters_in(site, topic, batch) if _is_wanted(letter, asked)]
    return Page(found, position_text(reading.positions))


def get_letter(site: Site, asked: One) -> Shown:
    """One dead letter."""
    return next(letters_in(site, _box(site.log, asked.topic), _found(site.log, asked)))


def _box(log: Log, name: str) -> Topic:
    if not name.endswith(SUFFIX):
        raise UnknownTopic(f'"{name}" holds no dead letters', fix=f'their topics end with "{SUFFIX}"')
    return log.topic(name)


def _count(log: Log, topic: str) -> int:
    return sum(bounds.end - bounds.start for bounds in log.bounds(topic).values())


def letters_in(site: Site, topic: Topic, batch: Batch) -> Iterator[Shown]:
    records = list(batch.records())
    fates = site.fates.of([_id(topic, record.partition, record.offset) for record in records])
    for record, fate in zip(records, fates, strict=True):
        yield _shown(record, fate or OPEN)


def _shown(record: StoredRecord, state: str) -> Shown:
    why = {n: _text(record.record.header(n)) for n in ("code", "reason", "where", "origin", "query")}
    where = why.pop("where") or why.pop("origin", None)
    place = record.topic, record.partition, record.offset, record.timestamp
    return Shown(*place, state, why["code"], why["reason"], where, why["query"], _text(record.key), _text(record.value))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _is_wanted(letter: Shown, asked: Letters) -> bool:
    pairs = ((asked.query, letter.query), (asked.code, letter.code), (asked.state, letter.state))
    return all(wanted in (None, "all", there) for wanted, there in pairs)


def _id(topic: Topic, partition: int, offset: int) -> Letter:
    return Letter(topic.name, topic.created_at, partition, offset)


def _found(log: Log, asked: One) -> Batch:
    try:
        batch = log.read(asked.topic, asked.partition, asked.offset, max_records=1)
    except (OffsetOutOfRange, UnknownPartition):
        batch = None
    if not batch or batch.rows.column("$offset")[0].as_py() != asked.offset:
        raise UnknownLetter(
            f"there is no dead letter at {asked.topic}/{asked.partition}/{asked.offset}",
            fix=f"GET /api/v1/dead-letters/{asked.topic} lists them",
        )
    return batch


# -- settling -------------------------------------------------------------------------------------------------------


def replay_letter(site: Site, asked: One) -> Settled:
    """Append the record that a dead letter is of to its topic again, with its headers and its time. Once."""
    topic = _box(site.log, asked.topic)
    letter = next(_found(site.log, asked).records())
    origin = _origin(site.log, letter)
    site.rights.check(Deed.WRITE, thing(origin.topic))
    site.note("dead-letter-replayed", letter=f"{asked.topic}/{asked.partition}/{asked.offset}")
    rows = origin.rows.select([n for n in origin.rows.schema.names if not n.startswith("$") or n in GIVEN])
    settled = _id(topic, asked.partition, asked.offset)
    (went,) = site.fates.settle(settled, REPLAYED, [Append(origin.topic, rows)])
    return Settled(str(settled), REPLAYED, went.topic, went.partition, went.offset)


def discard_letter(site: Site, asked: One) -> Settled:
    """Note that nothing is to be done about a dead letter. It stays where it is until it is too old."""
    topic = _box(site.log, asked.topic)
    _found(site.log, asked)
    settled = _id(topic, asked.partition, asked.offset)
    site.fates.settle(settled, DISCARDED)
    return Settled(str(settled), DISCARDED)


def _origin(log: Log, letter: StoredRecord) -> Batch:
    """The record that a letter is of, which must still be there."""
    where = _text(letter.record.header("where") or letter.record.header("origin")) or ""
    match = next((found for pattern in _ORIGINS if (found := pattern.fullmatch(where))), None)
    if match is None or match["topic"].startswith(INTERNAL):  # who writes letters does not write the system's facts
        raise _lost(letter, f'it says "{where}", which is no record of a topic')
    place: tuple[str, int, int] = match["topic"], int(match["partition"]), int(match["offset"])
    try:
        batch = log.read(*place, max_records=1)
    except (OffsetOutOfRange, UnknownTopic, UnknownPartition):
        raise _lost(letter, f"the record at {where} is gone") from None
    if not len(batch) or batch.rows.column("$offset")[0].as_py() != place[2] or not _is_same(log, batch, letter):
        raise _lost(letter, f"the record at {where} is gone")
    return batch


def _is_same(log: Log, batch: Batch, letter: StoredRecord) -> bool:
    """A letter about bytes that could not be read holds them: a topic made anew may have others at the place."""
    if not log.topic(batch.topic).schema.is_raw or letter.record.header("code") != b"bad-record":
        return True
    return next(batch.records()).value == letter.value


def _lost(letter: StoredRecord, what: str) -> NotReplayable:
    place = f"{letter.topic}/{letter.partition}/{letter.offset}"
    return NotReplayable(
        f"letter {place} cannot be replayed: {what}", where=place, fix="append it by hand, or discard it"
    )


_READ, _CONTROL = May(Deed.READ, Kind.TOPIC, "topic"), May(Deed.CONTROL, Kind.TOPIC, "topic")
ROUTES: tuple[Any, ...] = (
    Route("GET", "/dead-letters", list_boxes, needs=Be.KNOWN),
    Route("GET", "/dead-letters/{topic}", list_letters, needs=_READ),
    Route("GET", "/dead-letters/{topic}/{partition}/{offset}", get_letter, needs=_READ),
    Route("POST", "/dead-letters/{topic}/{partition}/{offset}/replay", replay_letter, needs=_READ),
    Route("DELETE", "/dead-letters/{topic}/{partition}/{offset}", discard_letter, needs=_CONTROL),
)
