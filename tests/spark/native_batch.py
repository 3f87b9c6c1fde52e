"""Native queries over what a log holds, many in one Spark job: a streaming query for each would take seconds.

Only the stream is missing: tasks read, decode and encode as in a streaming query, and Spark runs the compiled plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.contracts import Topic, dead_letter_topic
from headrace.engine.execution_mode import NATIVE
from headrace.engine.native.compiler import compile_plan, encoder_input
from headrace.engine.native.distinct import order_columns, order_rows
from headrace.engine.native.embedded_source import rows_for_spark
from headrace.engine.native.sink import RowEncoder
from headrace.engine.native.task_spec import NativeTaskSpec, is_final, native_task_spec
from headrace.engine.native.watermark import WatermarkState
from headrace.engine.planning.native_support import choose_native
from headrace.engine.verify.recompute import LogReader, ReadPart
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.relations import Kind
from headrace.plan.serialization import Setup, no_setup
from tests.spark.payload_records import records_of

QUERIES_PER_JOB = 24
"""With more, Spark takes longer to plan the job than to run it."""

Convert = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_PAYLOADS = pa.schema([("payload", pa.binary())])


@dataclass(frozen=True)
class BoundedQuery:
    """A query, and what it reads of a log."""

    query: Query
    parts: Sequence[ReadPart]


def runs_natively(log: EmbeddedLog, query: Query) -> bool:
    """Whether it runs natively on one of the logs: either supports what the other does not."""
    topics = {name: log.topic(name) for name in {query.sink.topic, *(source.topic for source in query.sources)}}
    choices = [choose_native(query, topics, kafka=kafka) for kafka in (False, True)]
    # The watermark of a stream decides when windows are final.
    return any(choice.execution_mode == NATIVE for choice in choices) and not is_final(query)


def written_natively(
    spark: SparkSession, log: EmbeddedLog, queries: Mapping[str, BoundedQuery], setup: Setup = no_setup
) -> dict[str, list[RawRecord]]:
    """What each query writes, by its name."""
    reader, found = LogReader(log.settings, str(log.folder.resolve())), defaultdict[str, list[RawRecord]](list)
    names = list(queries)
    for start in range(0, len(names), QUERIES_PER_JOB):
        frames = [
            _results(spark, log, reader, queries[name], setup).withColumn("name", f.lit(name))
            for name in names[start : start + QUERIES_PER_JOB]
        ]
        for row in reduce(DataFrame.unionAll, frames).toArrow().to_pylist():
            found[row["name"]] += records_of(row["payload"])
    return found


def _results(
    spark: SparkSession, log: EmbeddedLog, reader: LogReader, bounded: BoundedQuery, setup: Setup
) -> DataFrame:
    """Payloads of the sink's rows."""
    spec = native_task_spec(bounded.query, "", setup)
    source, sink = log.topic(spec.source.topic), spec.plan.sink
    read = _reading(reader, bounded.parts, source, spec)
    rows = compile_plan(spark.range(1, numPartitions=1).mapInArrow(read, from_arrow_schema(spec.arrow)), spec)
    if spec.distinct:
        rows = order_rows(encoder_input(rows, sink, spec, *order_columns(sink.relation)))
    else:
        rows = encoder_input(rows, sink, spec)
    topics = [log.topic(sink.topic), replace(log.topic(sink.topic), name=dead_letter_topic(sink.topic))]
    return rows.mapInArrow(_encoding(spec, topics), from_arrow_schema(_PAYLOADS))


def _reading(reader: LogReader, parts: Sequence[ReadPart], topic: Topic, spec: NativeTaskSpec) -> Convert:
    def read(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches = (batch for part in parts for piece in part for batch in reader.batches(piece))
        return rows_for_spark(batches, topic, spec, WatermarkState(), "")

    return read


def _encoding(spec: NativeTaskSpec, topics: Sequence[Topic]) -> Convert:
    encode = RowEncoder(spec)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for topic, rows in encode(batch, topics):
                if topic.name == topics[0].name:
                    yield pa.RecordBatch.from_pydict({"payload": [rows.serialize().to_pybytes()]}, _PAYLOADS)

    return run


def comparable(query: Query, records: Sequence[RawRecord]) -> object:
    """What must be the same, natively and by the chain: of a table the last record of each key, of a stream all."""
    if query.sink.relation.kind is Kind.STREAM:
        return sorted(records, key=repr) if native_task_spec(query, "").distinct else list(records)
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}
