"""A view held against its topic: built anew in another file, up to the position that it reflects, and compared there.

The view is only read, from one snapshot of it, and goes on meanwhile. Both lie in files (one that is kept elsewhere, as
a copy), so their size does not matter.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.contracts import Batch, Bounds, Log
from headrace.errors import ViewUnreadable
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event
from headrace.views.contract import Store
from headrace.views.keeper import Keeper, origin
from headrace.views.sqlite import SqliteView
from headrace.views.tables import Table


@dataclass(frozen=True)
class Mirrored:
    """`differing` are pairs of what should be there and what is, as many as were asked for; `count` are all."""

    rows: int
    position: Mapping[int, int]
    count: int
    differing: tuple[tuple[Event | None, Event | None], ...]


def mirrored(log: Log, store: Store, source: SourceInfo, show: int) -> Mirrored | None:
    """The view of a table in a store; None if it has none, or only one of an earlier table of the name."""
    with tempfile.TemporaryDirectory(prefix="headrace-verify-") as made:
        path = store.file(source, log.topic(source.topic), Path(made))
        return None if path is None else _mirrored(log, path, source, Path(made) / "anew", show)


def _mirrored(log: Log, path: Path, source: SourceInfo, made: Path, show: int) -> Mirrored | None:
    own = origin(source, log.topic(source.topic))
    with (
        _translated(path),
        closing(_read_only(path)) as db,
        closing(SqliteView(made, source.relation, own)) as anew,
    ):
        if _one(db, "SELECT origin FROM facts") != own:
            return None
        db.execute("ATTACH ? AS anew", (f"file:{anew.path}?mode=ro",))
        db.execute("BEGIN")  # from the first look on, one state of the view
        position = {int(p): at for p, at in json.loads(_one(db, "SELECT position FROM main.state")).items()}
        _rebuild(Keeper(Upto(log, position), source, anew))  # type: ignore[arg-type] - a log in what it needs
        return _compared(db, anew.table, position, show)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ViewUnreadable(f"the view cannot be read: {error}", where=str(path), fix=_ANEW) from error


_ANEW = "remove the file while no server runs: the view is then built anew from its topic"


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30, isolation_level=None)


def _one(db: sqlite3.Connection, statement: str) -> Any:
    return db.execute(statement).fetchone()[0]


def _rebuild(keeper: Keeper) -> None:
    while keeper.step():
        pass


class Upto:
    """A log that ends at a position of one topic."""

    def __init__(self, log: Log, position: Mapping[int, int]) -> None:
        self._log = log
        self._position = position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        return {
            partition: Bounds(start, max(start, min(end, self._position.get(partition, 0))))
            for partition, (start, end) in self._log.bounds(topic).items()
        }

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = 10_000) -> Batch:
        batch, end = self._log.read(topic, partition, offset, max_records=max_records), self._position[partition]
        if batch.next_offset <= end:
            return batch
        inside = sum(at < end for at in batch.rows.column("$offset").to_pylist())
        return Batch(topic, partition, batch.rows.slice(0, inside), end)


# -- both in SQL ----------------------------------------------------------------------------------------------------


def _compared(db: sqlite3.Connection, table: Table, position: Mapping[int, int], show: int) -> Mirrored:
    wanted, there = (_rows(table, side) for side in ("wanted", "there"))
    same_key = " AND ".join(f"wanted.{name} IS there.{name}" for name in table.key_names)
    either = (
        f"FROM anew.rows AS wanted LEFT JOIN main.rows AS there ON {same_key} WHERE ({wanted}) IS NOT ({there})",
        f"FROM main.rows AS there LEFT JOIN anew.rows AS wanted ON {same_key} WHERE wanted.time IS NULL",
    )
    count = sum(_one(db, f"SELECT count(*) {what}") for what in either)
    found = [row for what in either for row in db.execute(f"SELECT {wanted}, {there} {what} LIMIT {show}")][:show]
    rows = _one(db, "SELECT count(*) FROM anew.rows")
    return Mirrored(rows, position, count, tuple(_pair(table, row) for row in found))


def _rows(table: Table, side: str) -> str:
    return ", ".join(f"{side}.{name}" for name in ("time", *table.key_names, *table.value_names))


def _pair(table: Table, row: tuple[Any, ...]) -> tuple[Event | None, Event | None]:
    middle = len(row) // 2
    wanted, there = (table.events([half])[0] if half[0] is not None else None for half in (row[:middle], row[middle:]))
    return wanted, there  # type: ignore[return-value] - rows of a table are events
