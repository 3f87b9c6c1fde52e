"""PRINT: shows a topic's records in the order in which they were appended, existing and new ones.

In a script it shows the existing records; on a server it is a push query (`TopicPrinter`), run by `PushQueries`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from headrace.contracts import Batch, Log
from headrace.control.serving.ordered_reader import OrderedReader
from headrace.control.serving.result_rows import ResultRow
from headrace.control.serving.row_codec import records_of_batch
from headrace.errors import UnknownTopic, suggestion
from headrace.formats.json.encoder import dumps
from headrace.lang.record_printer import record_cells, record_formats
from headrace.plan.actions import MetadataQuery
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import RawRecord
from headrace.plan.sources import SourceInfo

_SAMPLE_SIZE = 100  # records from which the format of a topic without a source is guessed


class TopicPrinter:
    """A PRINT as a push query: follows its topic, and converts records to result rows."""

    time = -1

    def __init__(self, log: Log, statement: MetadataQuery, source: SourceInfo | None, principal: str = "") -> None:
        self.limit = statement.limit
        self.principal = principal
        self.formats = record_formats(list(islice(read_all_records(log, statement.name, source), _SAMPLE_SIZE)), source)
        """The formats, as far as the current records show them."""
        self._reader = _reader_of(log, statement.name, source, from_beginning=statement.from_beginning)
        self._interval = statement.interval or 1
        self._numbers = count()
        self._cells = record_cells(source)

    def step(self) -> list[RawRecord] | None:
        """The next records; None if there are none."""
        return [record for _, record in self._reader.next()] or None

    def tick(self, now: int) -> list[RawRecord]:
        """PRINT has no deadlines."""
        del now
        return []

    def render(self, records: list[RawRecord]) -> list[ResultRow]:
        """Rows for every nth record, counted over all steps."""
        return [ResultRow(dumps(self._cells(r))) for r in records if next(self._numbers) % self._interval == 0]


def source_of_topic(catalog: Catalog, topic: str) -> SourceInfo | None:
    """The source that declares the topic's format; None if there is none."""
    return next((source for source in catalog.sources.values() if source.topic == topic), None)


def read_all_records(log: Log, topic: str, source: SourceInfo | None) -> Iterator[RawRecord]:
    """All existing records of a topic."""
    reader = _reader_of(log, topic, source, from_beginning=True, bounded=True)
    return (record for page in iter(reader.next, []) for _, record in page)


def _reader_of(
    log: Log, name: str, source: SourceInfo | None, *, from_beginning: bool, bounded: bool = False
) -> OrderedReader:
    known = {topic.name: topic for topic in log.topics()}
    if name not in known:
        raise UnknownTopic(
            f'topic "{name}" does not exist', fix=suggestion(name, known, f"topics: {', '.join(known) or 'none'}")
        )

    def records(batch: Batch) -> Iterator[RawRecord]:
        return records_of_batch(batch, known[name], source)

    return OrderedReader(log, [name], records, from_beginning=from_beginning, bounded=bounded)
