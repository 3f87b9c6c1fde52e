"""Records: appended in one request, durable when it is answered; read a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.access.grants import Deed, Kind
from headrace.access.who import LOCAL
from headrace.contracts import Append, Appended, Topic
from headrace.errors import BadRequest, UnknownContentType
from headrace.log.rows import read_schema
from headrace.serve.api.intake import ARROW, CONTENT_TYPES, JSON, MOST, rows_of
from headrace.serve.api.parameters import Payload, in_header, in_query, whole_body
from headrace.serve.api.positions import behind, position_text, starts
from headrace.serve.api.reading import Reading
from headrace.serve.api.route import May, Plain, Route
from headrace.serve.api.shown import arrow, documents, page_of
from headrace.serve.api.site import Site
from headrace.serve.api.topics import Named, own_topic

MOST_PAGE = 10_000
NEXT = "headrace-next"


@dataclass(frozen=True)
class Part:
    """`count` records from `offset` on."""

    partition: int
    offset: int
    count: int


@dataclass(frozen=True)
class Produced:
    """Where the records went. A read with `token` sees them; `repeated` says that they were there already."""

    topic: str
    records: int
    parts: list[Part]
    token: str
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class Produce(Named):
    partition: int | None = in_query("All go there; by default each goes where the topic's partitioner sends it.", None)
    producer: str | None = in_header(
        "A producer's name: its numbered requests count once.", None, name="headrace-producer"
    )
    sequence: int | None = in_header("The producer's number, from 0 on.", None, name="headrace-sequence")
    content: Payload = whole_body("An array of records, one on each line, or a stream of Arrow's.", *CONTENT_TYPES)


@dataclass(frozen=True, kw_only=True)
class Read(Named):
    partition: int | None = in_query("Only this one.", None)
    offset: int | None = in_query("Begin there; for one partition.", None)
    start: str = in_query(
        "Where to begin: beginning, end, a time, -10m, or what `next` said.", "beginning", name="from"
    )
    limit: int = in_query("At most so many records.", 100, most=MOST_PAGE)
    accept: str = in_header(f"{JSON} or {ARROW}.", JSON, name="accept")


# -- produce --------------------------------------------------------------------------------------------------------


def produce(site: Site, asked: Produce) -> Produced:
    """Append records: all of them or none. They are durable when this is answered.

    With `headrace-producer` and `headrace-sequence` the request may be repeated as often as it takes to get an answer.
    """
    topic = own_topic(site.log, asked.topic)
    appends = [Append(topic.name, rows_of(asked.content, topic), asked.partition)]
    if (asked.producer is None) != (asked.sequence is None):
        raise BadRequest("a producer and its number go together", fix="send headrace-producer and headrace-sequence")
    if asked.producer is None or asked.sequence is None:
        return _produced(topic, site.log.append(appends))
    appended = site.producers.append(_own_name(site, asked.producer), asked.sequence, appends)
    return _produced(topic, appended) if appended is not None else _repeated(site, topic)


def _own_name(site: Site, producer: str) -> str:
    """Numbers are each user's own: with another's, one could have that one's records taken for repeated ones."""
    who = site.rights.who
    return producer if who == LOCAL else f"{who.name}/{producer}"


def _produced(topic: Topic, appended: list[Appended]) -> Produced:
    parts = [Part(one.partition, one.offset, one.count) for one in appended]
    return Produced(topic.name, sum(part.count for part in parts), parts, position_text(behind(appended)))


def _repeated(site: Site, topic: Topic) -> Produced:
    """They lie somewhere before the ends of today."""
    return Produced(topic.name, 0, [], position_text(starts(site.log, topic.name, "end")), repeated=True)


# -- consume --------------------------------------------------------------------------------------------------------


def read_records(site: Site, asked: Read) -> Plain:
    """A page of records, and where the next one begins: give that as `from`. An empty page is the end for now."""
    topic = own_topic(site.log, asked.topic)
    positions = starts(site.log, topic.name, _start(asked), asked.partition)
    reading = Reading(site.log, positions, grows=asked.partition is None)
    batches = reading.page(asked.limit)
    following = position_text(reading.positions)
    if ARROW in asked.accept:
        return Plain(arrow(batches, read_schema(topic.schema)), ARROW, {NEXT: following})
    if not any(kind in asked.accept for kind in (JSON, "*/*", "application/*")):
        raise UnknownContentType(f'records are not given as "{asked.accept[:80]}"', fix=f"accept {JSON} or {ARROW}")
    lines = [line for batch in batches for line in documents(batch, topic.schema)]
    return Plain(page_of(lines, {"next": following, "behind": reading.behind()}), JSON, {NEXT: following})


def _start(asked: Read) -> str:
    if asked.offset is None:
        return asked.start
    if asked.partition is None:
        raise BadRequest("an offset is one of a partition", fix="say which with partition=")
    return f"{asked.topic}/{asked.partition}:{asked.offset}"


ROUTES = (
    Route("POST", "/topics/{topic}/records", produce, 201, most=MOST, needs=May(Deed.WRITE, Kind.TOPIC, "topic")),
    Route(
        "GET",
        "/topics/{topic}/records",
        read_records,
        types=(JSON, ARROW),
        needs=May(Deed.READ, Kind.TOPIC, "topic"),
    ),
)
