"""Compares a view with its topic: rebuilds it in another file up to the view's position, and compares the two.

The view is only read, from one snapshot, and may be updated meanwhile. Both are files (of a view in another store, a
copy), so their size does not matter.
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
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.views.contract import ViewStore
from headrace.views.materializer import ViewMaterializer, origin_fingerprint
from headrace.views.sqlite import SqliteView
from headrace.views.sqlite_table import SqliteTable


@dataclass(frozen=True)
class ViewComparison:
    """`differing` are pairs of expected and actual row, up to the requested number; `count` is the total."""

    rows: int
    position: Mapping[int, int]
    count: int
    differing: tuple[tuple[Event | None, Event | None], ...]


def compare_view(log: Log, store: ViewStore, source: SourceInfo, show: int) -> ViewComparison | None:
    """Compare the view of a table; None if there is no view, or only one of an earlier table of the same name."""
    with tempfile.TemporaryDirectory(prefix="headrace-verify-") as folder:
        path = store.file(source, log.topic(source.topic), Path(folder))
        return None if path is None else _compare(log, path, source, Path(folder) / "rebuilt", show)


def _compare(log: Log, path: Path, source: SourceInfo, folder: Path, show: int) -> ViewComparison | None:
    own = origin_fingerprint(source, log.topic(source.topic))
    with (
        _translated(path),
        closing(_read_only(path)) as db,
        closing(SqliteView(folder, source.relation, own)) as rebuilt,
    ):
        if _scalar(db, "SELECT origin FROM facts") != own:
            return None
        db.execute("ATTACH ? AS rebuilt", (f"file:{rebuilt.path}?mode=ro",))
        db.execute("BEGIN")  # all reads from here on see one snapshot of the view
        position = {int(p): at for p, at in json.loads(_scalar(db, "SELECT position FROM main.state")).items()}
        _rebuild(ViewMaterializer(BoundedLog(log, position), source, rebuilt))  # type: ignore[arg-type] - a partial Log
        return _compared(db, rebuilt.table, position, show)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ViewUnreadable(f"the view cannot be read: {error}", where=str(path), fix=_REBUILD_FIX) from error


_REBUILD_FIX = "remove the file while no server runs; the view is then rebuilt from its topic"


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30, isolation_level=None)


def _scalar(db: sqlite3.Connection, statement: str) -> Any:
    return db.execute(statement).fetchone()[0]


def _rebuild(materializer: ViewMaterializer) -> None:
    while materializer.step():
        pass


class BoundedLog:
    """A log whose topic ends at a given position."""

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


# -- comparison in SQL ----------------------------------------------------------------------------------------------


def _compared(db: sqlite3.Connection, table: SqliteTable, position: Mapping[int, int], show: int) -> ViewComparison:
    expected, actual = (_rows(table, side) for side in ("expected", "actual"))
    same_key = " AND ".join(f"expected.{name} IS actual.{name}" for name in table.key_names)
    either = (
        f"FROM rebuilt.rows AS expected LEFT JOIN main.rows AS actual ON {same_key} "
        f"WHERE ({expected}) IS NOT ({actual})",
        f"FROM main.rows AS actual LEFT JOIN rebuilt.rows AS expected ON {same_key} WHERE expected.time IS NULL",
    )
    count = sum(_scalar(db, f"SELECT count(*) {what}") for what in either)
    pairs = [row for what in either for row in db.execute(f"SELECT {expected}, {actual} {what} LIMIT {show}")][:show]
    rows = _scalar(db, "SELECT count(*) FROM rebuilt.rows")
    return ViewComparison(rows, position, count, tuple(_pair(table, row) for row in pairs))


def _rows(table: SqliteTable, side: str) -> str:
    return ", ".join(f"{side}.{name}" for name in ("time", *table.key_names, *table.value_names))


def _pair(table: SqliteTable, row: tuple[Any, ...]) -> tuple[Event | None, Event | None]:
    middle = len(row) // 2
    expected, actual = (
        table.events([half])[0] if half[0] is not None else None for half in (row[:middle], row[middle:])
    )
    return expected, actual  # type: ignore[return-value] - rows of a table are events
