"""The embedded log as pages: a source whose rows are packed where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.engine.record.placing import PACKED, packed
from headrace.engine.record.work import Work
from headrace.engine.source import HeadraceSource, Range, StreamReader, admitted, options, registered


class PageSource(HeadraceSource):
    """Rows of PACKED: the records of each page among those that a task has read."""

    work: ClassVar[Work]

    def schema(self) -> StructType:
        return from_arrow_schema(PACKED)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PageReader(dict(self.options), self._topics, None, self.work)


class PageReader(StreamReader):
    def __init__(self, options: Any, topics: Any, columns: Any, work: Work) -> None:
        super().__init__(options, topics, columns)
        self.work = work

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        for batch in self.view.scan(partition.topic, partition.partition, partition.after, partition.upto):
            if len(batch):
                yield packed(batch, self.work)


def read_pages(
    spark: SparkSession, folder: Path, work: Work, topics: Sequence[str], *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topics of a query, and its ticks, as a stream of packed pages."""
    source = type("PageSource", (PageSource,), {"work": work})
    reader = spark.readStream.format(registered(spark, source)).options(**options(folder, topics, None, start))
    return admitted(reader, spark, max_rows).load()
