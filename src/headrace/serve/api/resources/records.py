"""Records: appended in one request, durable when the response is sent; read in pages."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from headrace.access.grants import Privilege, ResourceType
from headrace.access.principal import LOCAL
from headrace.contracts import Append, Appended, Topic
from headrace.errors import BadRequest, UnknownContentType
from headrace.log.stored_rows import read_schema
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.partition_reader import PartitionReader
from headrace.serve.api.log_io.positions import format_positions, positions_after, start_positions
from headrace.serve.api.log_io.record_decoder import ARROW, CONTENT_TYPES, JSON, MAX_PRODUCE_BYTES, decode_records
from headrace.serve.api.log_io.record_encoder import encode_arrow, encode_json, json_page
from headrace.serve.api.parameters import Payload, in_header, in_query, raw_body
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.topics import TopicRequest, user_topic
from headrace.serve.api.route import RawResponse, RequiredPrivilege, Route

MAX_PAGE_RECORDS = 10_000
NEXT_HEADER = "headrace-next"


@dataclass(frozen=True)
class AppendedRange:
    """`count` records, starting at `offset`."""

    partition: int
    offset: int
    count: int


@dataclass(frozen=True)
class ProduceResponse:
    """Where the records were appended. A read with `token` sees them. `repeated` means that an earlier request appended
    them.
    """

    topic: str
    records: int
    parts: list[AppendedRange]
    token: str
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class ProduceRequest(TopicRequest):
    partition: int | None = in_query(
        "The partition of all records; by default the topic's partitioner chooses one for each record.", None
    )
    producer: str | None = in_header(
        "A producer's name: its numbered requests count once.", None, name="headrace-producer"
    )
    sequence: int | None = in_header("The producer's number, from 0 on.", None, name="headrace-sequence")
    content: Payload = raw_body("An array of records, one on each line, or a stream of Arrow's.", *CONTENT_TYPES)


@dataclass(frozen=True, kw_only=True)
class ReadRecordsRequest(TopicRequest):
    partition: int | None = in_query("Only this one.", None)
    offset: int | None = in_query("The first offset; requires `partition`.", None)
    start: str = in_query(
        "Where to start: beginning, end, a time, -10m, or what `next` said.", "beginning", name="from"
    )
    limit: int = in_query("Maximum number of records to return.", 100, most=MAX_PAGE_RECORDS)
    accept: str = in_header(f"{JSON} or {ARROW}.", JSON, name="accept")


# -- produce --------------------------------------------------------------------------------------------------------


def produce(context: RequestContext, params: ProduceRequest) -> ProduceResponse:
    """Append records: all or none. They are durable when the response is sent.

    With `headrace-producer` and `headrace-sequence`, the request is idempotent and can be retried until a response
    arrives.
    """
    topic = user_topic(context.log, params.topic)
    appends = [Append(topic.name, decode_records(params.content, topic), params.partition)]
    if (params.producer is None) != (params.sequence is None):
        raise BadRequest(
            "a producer name and a sequence number are required together",
            fix="send headrace-producer and headrace-sequence",
        )
    if params.producer is None or params.sequence is None:
        return _produced(topic, context.log.append(appends))
    appended = context.producers.append(_own_name(context, params.producer), params.sequence, appends)
    return _produced(topic, appended) if appended is not None else _repeated(context, topic)


def _own_name(context: RequestContext, producer: str) -> str:
    """The producer's name, scoped to the user: otherwise a user could make another user's records count as repeats."""
    principal = context.rights.principal
    return producer if principal.name == LOCAL.name else f"{quote(principal.name, safe='@')}/{producer}"


def _produced(topic: Topic, appended: list[Appended]) -> ProduceResponse:
    charge_rows(sum(one.count for one in appended))
    parts = [AppendedRange(one.partition, one.offset, one.count) for one in appended]
    return ProduceResponse(
        topic.name, sum(part.count for part in parts), parts, format_positions(positions_after(appended))
    )


def _repeated(context: RequestContext, topic: Topic) -> ProduceResponse:
    """The response to a repeated request. Its records are somewhere before the current end offsets."""
    return ProduceResponse(
        topic.name, 0, [], format_positions(start_positions(context.log, topic.name, "end")), repeated=True
    )


# -- consume --------------------------------------------------------------------------------------------------------


def read_records(context: RequestContext, params: ReadRecordsRequest) -> RawResponse:
    """Read a page of records. Pass `next` as `from` to read the following page; an empty page is the current end."""
    topic = user_topic(context.log, params.topic)
    positions = start_positions(context.log, topic.name, _start(params), params.partition)
    reading = PartitionReader(context.log, positions, grows=params.partition is None)
    batches = reading.page(params.limit)
    charge_rows(sum(map(len, batches)))
    following = format_positions(reading.positions)
    if ARROW in params.accept:
        return RawResponse(encode_arrow(batches, read_schema(topic.schema)), ARROW, {NEXT_HEADER: following})
    if not any(kind in params.accept for kind in (JSON, "*/*", "application/*")):
        raise UnknownContentType(
            f'records are not available as "{params.accept[:80]}"', fix=f"accept {JSON} or {ARROW}"
        )
    lines = [line for batch in batches for line in encode_json(batch, topic.schema)]
    return RawResponse(
        json_page(lines, {"next": following, "behind": reading.behind()}), JSON, {NEXT_HEADER: following}
    )


def _start(params: ReadRecordsRequest) -> str:
    if params.offset is None:
        return params.start
    if params.partition is None:
        raise BadRequest("an offset requires a partition", fix="add partition=")
    return f"{params.topic}/{params.partition}:{params.offset}"


ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/records",
        produce,
        201,
        most=MAX_PRODUCE_BYTES,
        needs=RequiredPrivilege(Privilege.WRITE, ResourceType.TOPIC, "topic"),
        work=WorkClass.INSERT,
    ),
    Route(
        "GET",
        "/topics/{topic}/records",
        read_records,
        types=(JSON, ARROW),
        needs=RequiredPrivilege(Privilege.READ, ResourceType.TOPIC, "topic"),
        work=WorkClass.PULL,
    ),
)
