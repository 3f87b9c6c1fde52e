"""A log seen from a process that only reads: no writer's lock, no threads. Spark's workers have one each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.contracts import Batch, Topic
from headrace.log.embedded import order
from headrace.log.embedded.catalog import Catalog
from headrace.log.embedded.reading import Reader
from headrace.log.embedded.store import Store


class LogView:
    """Positions and rows of a data folder."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.catalog = Catalog(self.store)
        self.reader = Reader(self.store)

    def topic(self, name: str) -> Topic:
        return self.catalog.entry(name).topic

    def head(self, topics: Sequence[str]) -> int:
        return order.head(self, topics)

    def removed(self, topics: Sequence[str]) -> int:
        return order.removed(self, topics)

    def cut(self, topics: Sequence[str], after: int, max_rows: int) -> int:
        return order.cut(self, topics, after, max_rows)

    def split(self, topics: Sequence[str], after: int, upto: int, rows: int) -> list[tuple[str, int, int, int]]:
        return order.split(self, topics, after, upto, rows)

    def scan(self, topic: str, partition: int, after: int, upto: int) -> Iterator[Batch]:
        return self.reader.scan(self.catalog.entry(topic), partition, after, upto)

    def close(self) -> None:
        self.store.close()
