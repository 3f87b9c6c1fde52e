"""A log for processes that only read: no write lock, no threads. Each of Spark's workers has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.contracts import Batch, Topic
from headrace.log.embedded.storage import total_order
from headrace.log.embedded.storage.extent_reader import ExtentReader
from headrace.log.embedded.storage.store import Store
from headrace.log.embedded.storage.topic_catalog import TopicCatalog


class ReadOnlyLog:
    """Positions and rows of a data folder."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.catalog = TopicCatalog(self.store)
        self.reader = ExtentReader(self.store)

    def topic(self, name: str) -> Topic:
        return self.catalog.entry(name).topic

    def head(self, topics: Sequence[str]) -> int:
        return total_order.head(self, topics)

    def removed(self, topics: Sequence[str]) -> int:
        return total_order.removed(self, topics)

    def cut(self, topics: Sequence[str], after: int, max_rows: int) -> int:
        return total_order.cut(self, topics, after, max_rows)

    def split(self, topics: Sequence[str], after: int, upto: int, rows: int) -> list[tuple[str, int, int, int]]:
        return total_order.split(self, topics, after, upto, rows)

    def scan(self, topic: str, partition: int, after: int, upto: int) -> Iterator[Batch]:
        return self.reader.scan(self.catalog.entry(topic), partition, after, upto)

    def close(self) -> None:
        self.store.close()
