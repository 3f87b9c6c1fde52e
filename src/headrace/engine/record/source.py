"""The embedded log as pages: a source whose rows are packed where they are read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.engine.batch.paging import Pages, pages_of
from headrace.engine.record.operator import Work
from headrace.engine.record.packing import PACKED, packed, records_of
from headrace.engine.source import HeadraceSource, Range, StreamReader, options, registered
from headrace.plan.chain.records import Raw


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
                records = records_of(batch)
                yield packed(*fanned(records, self.work))


def fanned(records: pa.RecordBatch, work: Work) -> tuple[pa.RecordBatch, list[int]]:
    """Records with the page of each; ticks go to all pages, and what meets no state stays with its key."""
    if work.pages == 1:
        return records, [0] * records.num_rows
    pages = _pages(work)
    if records.column("topic")[0].as_py() == work.ticks:
        every = pa.array([row for row in range(records.num_rows) for _ in range(work.pages)])
        return records.take(every), list(range(work.pages)) * records.num_rows
    columns = (records.column(name).to_pylist() for name in ("topic", "key", "value", "time"))
    found = [
        pages.page(topic, Raw(*record), work.pages) if topic in pages.keys else crc32(record[0] or b"") % work.pages
        for topic, *record in zip(*columns, strict=True)
    ]
    return records, found


@lru_cache(64)
def _pages(work: Work) -> Pages:
    return pages_of(work.plan)


def read_pages(spark: SparkSession, folder: Path, work: Work, topics: list[str], *, max_rows: int) -> DataFrame:
    """The topics of a query, and its ticks, as a stream of packed pages."""
    source = type("PageSource", (PageSource,), {"work": work})
    reader = spark.readStream.format(registered(spark, source)).options(**options(folder, topics, None, "earliest"))
    return reader.option("max_rows", str(max_rows)).load()
