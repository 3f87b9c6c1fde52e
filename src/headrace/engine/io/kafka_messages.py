"""Converts messages read by Spark's Kafka connector to batches of the log.

Messages of a raw topic without headers are rows already: their columns are used unchanged. All others are decoded one
by one by the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import SYSTEM_COLUMNS, Batch
from headrace.engine.io.kafka_source import to_messages
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import read_schema
from headrace.schema import RAW


def to_batches(messages: pa.RecordBatch, log: KafkaLog, raw: Collection[str]) -> Iterator[Batch]:
    """Yields rows by topic and partition; `raw` are the topics that have no schema."""
    for part in split_by_partition(messages):
        topic = part.column("topic")[0].as_py()
        if topic in raw and not _have_headers(part):
            yield Batch(topic, part.column("partition")[0].as_py(), as_rows(part), _last_offset(part) + 1)
            continue
        for (name, partition), opened in to_messages(part).items():
            yield Batch(name, partition, log.open_messages(name, partition, opened), _last_offset(part) + 1)


def split_by_partition(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits messages by topic and partition. A task mixes Kafka's partitions only in small batches."""
    if not messages.num_rows:
        return
    topics = messages.column("topic").dictionary_encode().indices.to_numpy().astype(np.int64)
    partition_ids = topics << 32 | messages.column("partition").to_numpy()
    if partition_ids.min() == partition_ids.max():
        yield messages
        return
    for one in np.unique(partition_ids):
        yield messages.filter(pa.array(partition_ids == one))


def with_topic(messages: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """Adds the topic to messages that are all of one topic and were read without it."""
    places = pa.array(np.zeros(messages.num_rows, np.int8))
    return messages.append_column("topic", pa.DictionaryArray.from_arrays(places, pa.array([topic])))


def _have_headers(messages: pa.RecordBatch) -> bool:
    return bool(pc.sum(pc.list_value_length(messages.column("headers"))).as_py())


def _last_offset(messages: pa.RecordBatch) -> int:
    return messages.column("offset")[-1].as_py()


def as_rows(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Converts messages of one partition of a raw topic, none of which has headers."""
    key, value = (messages.column(name).cast(pa.binary()) for name in ("key", "value"))
    times = messages.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    columns = {name: pa.nulls(messages.num_rows, kind) for name, kind in SYSTEM_COLUMNS.items()}
    columns |= {"$timestamp": pc.max_element_wise(times, 0), "$offset": messages.column("offset")}
    deleted = pc.and_(value.is_null(), key.is_valid())
    columns["$deleted"] = pc.if_else(deleted, True, pa.scalar(None, pa.bool_()))
    return pa.RecordBatch.from_arrays([key, value, *columns.values()], schema=read_schema(RAW))
