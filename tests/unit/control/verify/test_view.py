"""Comparison of a view with its topic at the view's position: keys, windows and rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from headrace.contracts import Append
from headrace.control.serving.row_codec import encode_rows
from headrace.control.verify.view import compare_view
from headrace.errors import ViewUnreadable
from headrace.lang.ksql.scripts.checker import check_script
from headrace.log.embedded import EmbeddedLog
from headrace.log.topic_spec import ensure_topic
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.views.contract import ViewStore
from headrace.views.materializer import ViewMaterializer, view_path
from headrace.views.stores import SqliteStore

PLAIN = "CREATE TABLE t (id INT PRIMARY KEY, n DOUBLE, tags ARRAY<STRING>) WITH (kafka_topic='t', format='JSON'{});"
WINDOWED = ", window_type='TUMBLING', window_size='5 seconds'"


def source(more: str = "") -> SourceInfo:
    return check_script(PLAIN.format(f", partitions=1{more}")).catalog.sources["T"]


def kept(log: EmbeddedLog, info: SourceInfo, store: ViewStore | None = None) -> None:
    with closing((store or SqliteStore(log.folder)).open(info, log.topic("t"))) as view:
        keeper = ViewMaterializer(log, info, view, at_once=7)
        while keeper.step():
            pass


def append(log: EmbeddedLog, info: SourceInfo, *events: Event) -> None:
    log.append([Append("t", encode_rows(log.topic("t"), info, events))])


@pytest.fixture(params=["", WINDOWED], ids=["plain", "windowed"])
def info(request: pytest.FixtureRequest, log: EmbeddedLog) -> SourceInfo:
    return filled(log, request.param)


def filled(log: EmbeddedLog, more: str) -> SourceInfo:
    found = source(more)
    ensure_topic(log, "t")
    key: Callable[[int], tuple[object, ...]] = (
        (lambda n: (n % 5, (n // 5 * 5000, n // 5 * 5000 + 5000))) if more else (lambda n: (n % 5,))
    )
    append(log, found, *((n, key(n), None if n == 7 else (n * 0.1, ["a", None])) for n in range(30)))
    return found


def test_a_view_is_compared_as_of_its_position(log: EmbeddedLog, info: SourceInfo) -> None:
    check_position(log, SqliteStore(log.folder), info)


def check_position(log: EmbeddedLog, store: ViewStore, info: SourceInfo) -> None:
    assert compare_view(log, store, info, 20) is None
    kept(log, info, store)
    rows = 30 - 1 if info.relation.window else 5
    append(log, info, (40, (99,) if not info.relation.window else (99, (0, 5000)), (1.0, None)))
    found = compare_view(log, store, info, 20)
    assert found is not None
    assert (found.rows, found.count, found.differing, found.position) == (rows, 0, (), {0: 30})


TAMPERING = (
    "UPDATE rows SET v0 = 77 WHERE k0 = 1",
    "DELETE FROM rows WHERE k0 = 3",
    "UPDATE rows SET k0 = 50 WHERE k0 = 4",
)


def test_tampered_rows_are_found(log: EmbeddedLog, info: SourceInfo) -> None:
    kept(log, info)
    with closing(sqlite3.connect(view_path(log.folder, info), isolation_level=None)) as db:
        counts = [db.execute(statement).rowcount for statement in TAMPERING]
    check_tampering(log, SqliteStore(log.folder), info, counts)


def check_tampering(log: EmbeddedLog, store: ViewStore, info: SourceInfo, counts: Sequence[int]) -> None:
    """`TAMPERING` has touched so many rows."""
    changed, gone, more = counts
    found = compare_view(log, store, info, 3)
    assert found is not None
    assert (found.count, len(found.differing)) == (changed + gone + 2 * more, 3)
    every = compare_view(log, store, info, 1000)
    assert every is not None
    pairs = [
        (wanted and wanted[1] and wanted[1][0], there and there[1] and there[1][0]) for wanted, there in every.differing
    ]
    assert set(pairs) == {(1, 1), (3, None), (4, None), (None, 50)}


def test_a_view_of_a_recreated_topic_is_not_compared(log: EmbeddedLog, info: SourceInfo) -> None:
    kept(log, info)
    log.delete_topic("t")
    ensure_topic(log, "t")
    assert compare_view(log, SqliteStore(log.folder), info, 20) is None


def test_a_damaged_file_raises_an_error(log: EmbeddedLog, info: SourceInfo) -> None:
    kept(log, info)
    view_path(log.folder, info).write_bytes(b"no database" * 1000)
    with pytest.raises(ViewUnreadable):
        compare_view(log, SqliteStore(log.folder), info, 20)
