"""Reads the embedded log in spans of its total order, for native queries that need the stream time.

Tasks read spans over all topics and partitions of a query. The stream time before a span is determined when a batch is
cut, and that after the batch is part of the offset that Spark checkpoints: it needs no other state, and a replay gets
the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.contracts import Topic
from headrace.engine.io.embedded_source import (
    Admission,
    EmbeddedSource,
    EmbeddedStreamReader,
    register_source,
    source_options,
    with_admission_control,
)
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.native.watermark import WatermarkState


@dataclass
class SequenceSpan(InputPartition):
    """The rows that one task reads, with `after < sequence <= upto`, and the stream time before them."""

    after: int
    upto: int
    before: WatermarkState


class SpanReader(EmbeddedStreamReader):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, spec: NativeTaskSpec) -> None:
        super().__init__(options, topics, columns)
        self.spec = spec
        self.arrow = spec.arrow
        self._cached_spans: tuple[tuple[int, WatermarkState, int], list[SequenceSpan], WatermarkState] | None = None

    @abstractmethod
    def after_span(self, span: SequenceSpan) -> WatermarkState:
        """The stream time after the rows of a span."""

    def spans(self, start: dict, before: WatermarkState, upto: int) -> tuple[list[SequenceSpan], WatermarkState]:
        """The tasks of a batch, and the stream time after it; cached, as Spark asks for both separately."""
        batch = (start["sequence"], before, upto)
        if self._cached_spans is None or self._cached_spans[0] != batch:
            spans, (after, watermark, _) = list[SequenceSpan](), batch
            while after < upto:
                end = min(self.view.cut(self.names, after, self.task_rows), upto)
                spans.append(SequenceSpan(after, end, watermark))
                after, watermark = end, self.after_span(spans[-1])
            self._cached_spans = batch, spans, watermark
        return self._cached_spans[1], self._cached_spans[2]


class SpanSource(EmbeddedSource):
    reader_class: ClassVar[type[SpanReader]]
    spec: ClassVar[NativeTaskSpec]

    def schema(self) -> StructType:
        return from_arrow_schema(self.spec.arrow)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self.reader_class(dict(self.options), self._topics, None, self.spec)


def read_spans(
    spark: SparkSession,
    folder: Path,
    topics: Sequence[str],
    reader: type[SpanReader],
    spec: NativeTaskSpec,
    *,
    admission: Admission,
    start: str = "earliest",
) -> DataFrame:
    """Reads the topics as a stream of the columns in `spec.arrow`."""
    source = type("SpanSource", (SpanSource,), {"reader_class": reader, "spec": spec})
    stream_reader = spark.readStream.format(register_source(spark, source)).options(
        **source_options(folder, topics, None, start)
    )
    return with_admission_control(stream_reader, spark, admission).load()
