"""The embedded log as a source of records by key group: rows are packed where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.engine.io.embedded_source import (
    Admission,
    EmbeddedSource,
    EmbeddedStreamReader,
    SequenceRange,
    register_source,
    source_options,
    with_admission_control,
)
from headrace.engine.record.shuffle.partitioner import SHUFFLE_SCHEMA, partition_batch
from headrace.engine.record.task_spec import RecordTaskSpec


class RecordSource(EmbeddedSource):
    """Rows of SHUFFLE_SCHEMA: the records of each key group among those that a task has read."""

    spec: ClassVar[RecordTaskSpec]

    def schema(self) -> StructType:
        return from_arrow_schema(SHUFFLE_SCHEMA)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RecordStreamReader(dict(self.options), self._topics, None, self.spec)


class RecordStreamReader(EmbeddedStreamReader):
    def __init__(self, options: Any, topics: Any, columns: Any, spec: RecordTaskSpec) -> None:
        super().__init__(options, topics, columns)
        self.spec = spec

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SequenceRange)
        for batch in self.view.scan(partition.topic, partition.partition, partition.after, partition.upto):
            if len(batch):
                yield partition_batch(batch, self.spec)


def read_key_groups(
    spark: SparkSession,
    folder: Path,
    spec: RecordTaskSpec,
    topics: Sequence[str],
    *,
    admission: Admission,
    start: str = "earliest",
) -> DataFrame:
    """Reads the topics of a query, and its ticks, as a stream of records packed by key group."""
    source = type("KeyGroupSource", (RecordSource,), {"spec": spec})
    reader = spark.readStream.format(register_source(spark, source)).options(
        **source_options(folder, topics, None, start)
    )
    return with_admission_control(reader, spark, admission).load()
