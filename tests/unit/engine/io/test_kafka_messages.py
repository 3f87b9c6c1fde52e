"""Kafka messages decoded in columns are the rows that the log decodes one by one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.engine.io.kafka_messages import as_rows, split_by_partition
from headrace.engine.io.kafka_source import to_messages
from headrace.log.kafka.encoding import decode

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BYTES = st.none() | st.binary(max_size=4)
MESSAGES = st.lists(
    st.tuples(
        BYTES, BYTES, st.sampled_from("ab"), st.integers(0, 2), st.integers(-5, 10**13), st.sampled_from([None, []])
    ),
    max_size=12,
)


def connector_rows(messages: list[tuple]) -> pa.RecordBatch:
    """As the connector gives them."""
    columns = list(zip(*messages, strict=True)) if messages else [[]] * 6
    kinds = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), HEADERS)
    key, value, topic, partition, time, headers = (pa.array(c, k) for c, k in zip(columns, kinds, strict=True))
    times = pc.multiply(time, 1000).cast(pa.timestamp("us", "UTC"))
    offsets = pa.array(range(len(messages)), pa.int64())
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    return pa.RecordBatch.from_arrays([key, value, topic, partition, offsets, times, headers], names)


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_columnar_decoding_gives_the_rows_of_the_messages(messages: list[tuple]) -> None:
    rows = connector_rows(messages)
    one_by_one = to_messages(rows)
    found = {
        (p.column("topic")[0].as_py(), p.column("partition")[0].as_py()): as_rows(p) for p in split_by_partition(rows)
    }
    assert found.keys() == one_by_one.keys()
    for place, those in one_by_one.items():
        assert found[place].equals(decode(those, Topic(place[0], TopicSpec(), 0)).rows)
