"""The embedded log as a Spark source: one position in the total order over all its topics.

The offset in Spark's checkpoint is a sequence, so a batch is `(after, upto]` of everything that was appended, whatever
the topic. Input partitions carry ranges of sequences, never paths: extents may be merged and compacted meanwhile.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headrace.contracts import Topic
from headrace.engine.io.columns import arrow_schema, spark_schema, to_spark
from headrace.errors import OffsetLost
from headrace.log.embedded.storage.read_only import ReadOnlyLog

_sessions = itertools.count()
_NAMES = 64
_TASK_ROWS = (100_000, 1_000_000)
"""Bounds of the rows per task: fewer do not pay for its start, and it may hold that many at once."""
_MAX_WAIT_SECONDS = 1.0
"""Seconds that a query waits for new rows before it reports to Spark that there are none; stopping it takes as long."""
_POLL_SECONDS = 0.002
"""Seconds between two polls: the append signal is sent for all topics, and others may be busy."""


@dataclass
class SequenceRange(InputPartition):
    """The rows that one task reads: those of a partition with `after < sequence <= upto`."""

    topic: str
    partition: int
    after: int
    upto: int


class EmbeddedSource(DataSource):
    """Options: folder, topics (JSON), start (earliest, latest, a sequence or a position), upto, max_rows, ends (JSON),
    task_rows, columns, lost.
    """

    @classmethod
    def name(cls) -> str:
        return "headrace"

    @property
    def _view(self) -> ReadOnlyLog:
        return open_view(self.options["folder"])

    @property
    def _topics(self) -> list[Topic]:
        return [self._view.topic(name) for name in json.loads(self.options["topics"])]

    @property
    def _columns(self) -> list[str] | None:
        return json.loads(self.options["columns"]) if "columns" in self.options else None

    def schema(self) -> StructType:
        return spark_schema(self._topics, self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return EmbeddedBatchReader(dict(self.options), self._topics, self._columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EmbeddedStreamReader(dict(self.options), self._topics, self._columns)


class _EmbeddedReader:
    """What the batch reader and the streaming reader share."""

    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Sequence[str] | None) -> None:
        self.options = options
        self.topics = topics
        self.arrow = arrow_schema(topics, columns)

    @property
    def names(self) -> list[str]:
        return [topic.name for topic in self.topics]

    @property
    def view(self) -> ReadOnlyLog:
        return open_view(self.options["folder"])

    @property
    def task_rows(self) -> int:
        return int(self.options.get("task_rows", _TASK_ROWS[0]))

    def start_position(self) -> dict[str, int]:
        """The position before the first row to read; a sequence alone does not say what was removed before."""
        start = self.options.get("start", "earliest")
        if start in ("earliest", "latest"):
            return {"sequence": 0 if start == "earliest" else self.view.head(self.names)}
        given = json.loads(start)
        return given if isinstance(given, dict) else {"sequence": given}

    def check_retention(self, after: int, known: int) -> None:
        """Raises OffsetLost if unread rows were removed; `known` were removed before the query began."""
        removed = self.view.removed(self.names)
        if removed > max(after, known) and self.options.get("lost", "error") == "error":
            raise OffsetLost(
                f"the query has read up to position {after}, but rows of {', '.join(self.names)} up to {removed} "
                "were removed",
                fix="restart the query from scratch, or set lost=earliest to resume with the earliest rows",
            )

    def ranges(self, after: int, upto: int) -> list[SequenceRange]:
        return [SequenceRange(*part) for part in self.view.split(self.names, after, upto, self.task_rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SequenceRange)
        for batch in self.view.scan(partition.topic, partition.partition, partition.after, partition.upto):
            yield to_spark(batch, self.topics, self.arrow)


class EmbeddedBatchReader(_EmbeddedReader, DataSourceReader):
    """A batch read of everything up to a position."""

    def partitions(self) -> Sequence[InputPartition]:
        after, upto = self.start_position()["sequence"], int(self.options.get("upto", self.view.head(self.names)))
        if after:
            self.check_retention(after, 0)
        return self.ranges(after, upto)


class EmbeddedStreamReader(_EmbeddedReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read; `max_rows` bounds a micro-batch."""

    _last: int | None = None

    def initialOffset(self) -> dict:
        # Rows removed before the query began are not lost; the offset carries this figure for the life of the query. A
        # query that continues after its output began earlier: its position has the figure of that time.
        start = self.start_position()
        return {"sequence": start["sequence"], "removed": start.get("removed", self.view.removed(self.names))}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self.options["max_rows"])) if "max_rows" in self.options else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self.view.head(self.names)

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        after = start["sequence"]
        if self._last is not None:
            return {**start, "sequence": max(after, min(self._batch_end(after, limit), self._last))}
        return {**start, "sequence": self._wait_for_rows(after, limit)}

    def _batch_end(self, after: int, limit: ReadLimit) -> int:
        if isinstance(limit, ReadMaxRows):
            end = self.view.cut(self.names, after, limit.max_rows)
        else:
            end = max(after, self.view.head(self.names))
        return min([end, *(at for at in self._ends if at > after)])

    @property
    def _ends(self) -> list[int]:
        """Positions at which a batch must end."""
        return json.loads(self.options.get("ends", "[]"))

    def _wait_for_rows(self, after: int, limit: ReadLimit) -> int:
        """Returns the end of the next batch; if there are no new rows, waits for the log's append signal for a while.

        Spark polls a hundred times a second. Waiting here, an idle query costs almost nothing, and a record is seen at
        once.
        """
        signal, deadline = self.view.store.commit_signal, time.monotonic() + _MAX_WAIT_SECONDS
        while True:
            seen = signal.commits
            upto = self._batch_end(after, limit)
            left = deadline - time.monotonic()
            if upto > after or left <= 0:
                return upto
            signal.wait(seen, left)
            time.sleep(_POLL_SECONDS)

    def reportLatestOffset(self) -> dict:
        return {"sequence": self.view.head(self.names)}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        self.check_retention(start["sequence"], start["removed"])
        return self.ranges(start["sequence"], end["sequence"])


@cache
def open_view(folder: str) -> ReadOnlyLog:
    """The log in this worker process; it stays open, since workers are reused."""
    return ReadOnlyLog(Path(folder))


@cache
def _names(spark: SparkSession) -> Iterator[str]:
    session = next(_sessions)
    return itertools.cycle([f"headrace{session}n{number}" for number in range(_NAMES)])


def register_source(spark: SparkSession, source: type[DataSource] = EmbeddedSource) -> str:
    """Registers a separate data source for each read, and returns its name.

    Spark holds one map of environment variables per registered source and changes it when a query starts; another query
    of the same source whose tasks are being serialised at that moment fails. Spark also never releases sources, so
    names are reused in a cycle: a name is looked up only while its read is being loaded. A session created from another
    one inherits its names permanently, and they cannot be registered again there: each session has its own.
    """
    name = next(_names(spark))
    spark.dataSource.register(type(source.__name__, (source,), {"name": classmethod(lambda cls: name)}))
    return name


def source_options(
    folder: Path, topics: Sequence[str], columns: Sequence[str] | None, start: str | int
) -> dict[str, str]:
    options = {"folder": str(folder.resolve()), "topics": json.dumps(list(topics)), "start": str(start)}
    return options if columns is None else {**options, "columns": json.dumps(list(columns))}


@dataclass(frozen=True)
class Admission:
    """The limit on the rows of a batch, and positions at which one must end."""

    max_rows: int
    ends: tuple[int, ...] = ()


def with_admission_control(reader: DataStreamReader, spark: SparkSession, admission: Admission) -> DataStreamReader:
    """Limits the rows per batch, split into as many tasks as run at once."""
    least, most = _TASK_ROWS
    share = min(max(admission.max_rows // spark.sparkContext.defaultParallelism, least), most)
    return reader.options(max_rows=str(admission.max_rows), task_rows=str(share), ends=json.dumps(list(admission.ends)))


def read_batch(
    spark: SparkSession,
    folder: Path,
    topics: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    start: str | int = "earliest",
    upto: int | None = None,
) -> DataFrame:
    """Reads what the topics hold, up to a position (or all of it)."""
    reader = spark.read.format(register_source(spark)).options(**source_options(folder, topics, columns, start))
    return (reader if upto is None else reader.option("upto", str(upto))).load()


def read_stream(
    spark: SparkSession,
    folder: Path,
    topics: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    start: str | int = "earliest",
    max_rows: int | None = None,
    lost: str = "error",
) -> DataFrame:
    """Reads the topics as a stream in one total order."""
    reader = spark.readStream.format(register_source(spark)).options(
        **source_options(folder, topics, columns, start), lost=lost
    )
    return (reader if max_rows is None else with_admission_control(reader, spark, Admission(max_rows))).load()
