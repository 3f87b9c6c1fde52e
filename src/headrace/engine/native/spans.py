"""The embedded log in spans of its order: what native queries read that must know how far the stream was.

Tasks read spans over all topics and partitions of a query. What was reached before a span is found when a batch is cut,
and behind the batch it is part of the offset that Spark checkpoints: no state is kept for it, a replay finds the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.contracts import Topic
from headrace.engine.source import HeadraceSource, StreamReader, admitted, options, registered

Reached = TypeVar("Reached")


@dataclass
class Span(InputPartition, Generic[Reached]):
    """What one task reads: rows with `after < sequence <= upto`, and how far the stream was before them."""

    after: int
    upto: int
    before: Reached


class SpanReader(StreamReader, Generic[Reached]):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, work: Any) -> None:
        super().__init__(options, topics, columns)
        self.work = work
        self.arrow = work.arrow
        self._cut: tuple[tuple[int, Reached, int], list[Span[Reached]], Reached] | None = None

    @abstractmethod
    def behind(self, span: Span[Reached]) -> Reached:
        """How far the stream is when the rows of a span have come."""

    def spans(self, start: dict, before: Reached, upto: int) -> tuple[list[Span[Reached]], Reached]:
        """The tasks of a batch, and what is reached behind it. Spark asks for the end and then for the tasks."""
        batch = (start["sequence"], before, upto)
        if self._cut is None or self._cut[0] != batch:
            spans, (after, reached, _) = list[Span[Reached]](), batch
            while after < upto:
                end = min(self.view.cut(self.names, after, self.task_rows), upto)
                spans.append(Span(after, end, reached))
                after, reached = end, self.behind(spans[-1])
            self._cut = batch, spans, reached
        return self._cut[1], self._cut[2]


class SpanSource(HeadraceSource):
    reads: ClassVar[type[SpanReader[Any]]]
    work: ClassVar[Any]

    def schema(self) -> StructType:
        return from_arrow_schema(self.work.arrow)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self.reads(dict(self.options), self._topics, None, self.work)


def stream_of(
    spark: SparkSession,
    folder: Path,
    topics: Sequence[str],
    reader: type[SpanReader[Any]],
    work: Any,
    *,
    max_rows: int,
    start: str = "earliest",
) -> DataFrame:
    """The topics as a stream of the columns that `work.arrow` says."""
    source = type("SpanSource", (SpanSource,), {"reads": reader, "work": work})
    given = spark.readStream.format(registered(spark, source)).options(**options(folder, topics, None, start))
    return admitted(given, spark, max_rows).load()
