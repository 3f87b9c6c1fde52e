"""The metadata of a record: its time, its headers, the stamp that identifies repeats, and why it became a dead letter.

| header | meaning |
|---|---|
| hr-query | the run id of the query that wrote the record; a query that starts over has another |
| hr-origin | the input record it was derived from: topic:partition:offset |
| hr-timestamp | its time in ms: Spark passes none to Kafka, so Kafka's own timestamp is the time of the write |

An input record gives at most one output record: two with the same hr-query and hr-origin are one record, written twice.
The log reads hr-timestamp as a record's time; headers of the input record are passed on, except these stamps.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.engine.realtime.json_values import quote_text
from headrace.log.kafka.encoding import TIME_HEADERS
from headrace.plan.nodes import Query, Source

QUERY_HEADER, ORIGIN_HEADER, TIME_HEADER = "hr-query", "hr-origin", "hr-timestamp"
CODES = ("bad-record", "bad-time")
"""The codes of dead letters."""
_NAMES = ", ".join(map(quote_text, TIME_HEADERS))
_STAMPS = ", ".join(map(quote_text, (QUERY_HEADER, ORIGIN_HEADER)))
_TIMES = f"(h.key in ({_NAMES}) and coalesce(cast(h.value as string) rlike '^-?[0-9]+$', false))"
_HEADERS = "array<struct<key: string, value: binary>>"


def arrival_stages(source: Source) -> list[dict[str, str]]:
    """Stages over Kafka's columns: `at` is the record's own time, `time` that of the timestamp column if any."""
    stated_time = f"get(reverse(filter(headers, h -> {_TIMES} and h.key = '{TIME_HEADER}')), 0).value"
    own = f"filter(headers, h -> not {_TIMES} and h.key not in ({_STAMPS}))"
    at = f"coalesce(try_cast(cast({stated_time} as string) as bigint), greatest(unix_millis(timestamp), 0))"
    return [
        {"at": at, "carried": f"coalesce({own}, cast(array() as {_HEADERS}))"},
        {"time": _time(source)},
        {"code": _CODE, "reason": f"coalesce(key_fault, value_fault, {_REASON})"},
    ]


def _time(source: Source) -> str:
    if source.timestamp is None:
        return "at"
    names = [field.name for field in source.relation.key]
    if source.timestamp.column in names:
        return f"k{names.index(source.timestamp.column)}"
    place = [field.name for field in source.relation.value].index(source.timestamp.column)
    return f"if(value_present, v{place}, at)"


_REASON = "if(time is null, 'the column that holds its time is null', concat('its time, ', time, ', is before 1970'))"


_CODE = (
    f"case when key_fault is not null or value_fault is not null then {quote_text(CODES[0])}"
    f" when time is null or time < 0 then {quote_text(CODES[1])} end"
)


def carried_headers() -> str:
    """The frame's column `headers`: all that is needed after the plan, whatever happens to the row's columns."""
    parts = {"code": "code", "reason": "reason", "key": "key", "value": "value", "carried": "carried"}
    parts |= {"partition": "partition", "offset": "offset", "at": "at"}
    return f"named_struct({', '.join(f'{quote_text(name)}, {text}' for name, text in parts.items())})"


def result_headers(run: str, source: Source) -> str:
    return f"concat(headers.carried, {_array({**_stamp(run, source), TIME_HEADER: 'cast(time as string)'})})"


def dead_letter_headers(query: Query, run: str, source: Source) -> str:
    """The same headers as in the other execution modes."""
    place = quote_text(f"topic {source.topic}, partition ")
    where = f"concat({place}, headers.partition, ', offset ', headers.offset)"
    why = {"code": "headers.code", "reason": "headers.reason", "where": where, "query": quote_text(query.id)}
    return _array({**why, **_stamp(run, source), TIME_HEADER: "cast(headers.at as string)"})


def _stamp(run: str, source: Source) -> dict[str, str]:
    origin = f"concat({quote_text(f'{source.topic}:')}, headers.partition, ':', headers.offset)"
    return {QUERY_HEADER: quote_text(run), ORIGIN_HEADER: origin}


def _array(headers: Mapping[str, str]) -> str:
    items = [f"struct({quote_text(name)} as key, cast({text} as binary) as value)" for name, text in headers.items()]
    return f"array({', '.join(items)})"
