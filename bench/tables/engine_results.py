"""The results of a query as one number, so that wrong results fail a side.

For a filter it is the number of rows; for an aggregate the sum of the last count of each key, which is all input rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from bench.tables.engine_rows import PARTITIONS
from headrace.contracts import Log

Row = tuple[Any, dict[str, Any]]
"""The key unchanged, and the value's columns in lower case."""
_SILENCE = 20.0  # seconds


def check(query: str, rows: Iterable[Row], expected: int) -> None:
    """Raises if the results of a query are wrong."""
    compare(query, sum(1 for _ in rows) if query in ("filter", "pass") else _sum_of_last(rows), expected)


def compare(query: str, came: int, expected: int) -> None:
    if came != expected:
        raise RuntimeError(f"the results of {query} come to {came:,}, not to {expected:,}")


def _sum_of_last(rows: Iterable[Row]) -> int:
    last = {key: row["n"] for key, row in rows}
    return sum(last.values())


def in_log(log: Log, topic: str) -> Iterator[Row]:
    """Rows of a headrace topic, raw or typed."""
    for batch in _batches(log, topic):
        if batch.schema.names[:2] == ["key", "value"]:
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                yield key, _small(json.loads(value))
        else:
            names = [name for name in batch.schema.names if not name.startswith("$")]
            keys = [name for name in names if name in log.topic(topic).schema.key]
            for row in batch.select(names).to_pylist():
                yield tuple(row[name] for name in keys), _small(row)


def _batches(log: Log, topic: str) -> Iterator[pa.RecordBatch]:
    for partition, (start, end) in log.bounds(topic).items():
        while start < end:
            batch = log.read(topic, partition, start)
            yield batch.rows
            start = batch.next_offset


def in_kafka(servers: str, topic: str) -> Iterator[Row]:
    """Rows of a topic with JSON values; rows without a key are known by all columns but the figures."""
    settings = {"bootstrap.servers": servers, "group.id": f"check-{topic}", "enable.partition.eof": True}
    reader = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    reader.assign([Place(topic, partition, 0) for partition in range(PARTITIONS)])
    try:
        yield from (_row(message) for message in _until_the_end(reader))
    finally:
        reader.close()


def seconds_in_kafka(servers: str, topic: str) -> float:
    """From the first append to a topic to the last, by the broker's clock."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": f"times-{topic}"})
    try:
        times = [_time(reader, place) for partition in range(PARTITIONS) for place in _ends(reader, topic, partition)]
    finally:
        reader.close()
    return (max(times) - min(times)) / 1000


def _ends(reader: Consumer, topic: str, partition: int) -> list[Place]:
    """The first and the last record; none of an empty partition."""
    start, end = reader.get_watermark_offsets(Place(topic, partition), timeout=_SILENCE)
    return [Place(topic, partition, offset) for offset in (start, end - 1)] if end > start else []


def _time(reader: Consumer, place: Place) -> int:
    reader.assign([place])
    message = reader.poll(_SILENCE)
    if message is None or message.error():
        raise RuntimeError(f"the record at {place} cannot be read")
    return message.timestamp()[1]


def _until_the_end(reader: Consumer) -> Iterator[Any]:
    ended = 0
    while ended < PARTITIONS:
        messages = reader.consume(10_000, _SILENCE)
        if not messages:
            raise RuntimeError("the results cannot be read to their end")
        for message in messages:
            error = message.error()
            if error is None:
                yield message
            elif error.name() == "_PARTITION_EOF":
                ended += 1
            else:
                raise KafkaException(error)


def _row(message: Any) -> Row:
    row = _small(json.loads(message.value()))
    return message.key() or (row.get("user"), row.get("started")), row


def _small(row: dict[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in row.items()}
