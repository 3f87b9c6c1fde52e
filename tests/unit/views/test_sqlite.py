"""Views in SQLite files: which files are refused, and that stored values keep their order."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.errors import ViewDamaged, ViewUnreadable
from headrace.log.embedded import EmbeddedLog
from headrace.plan import types as ty
from headrace.schema import Field
from headrace.views.column_encoding import ColumnCodec, NotSearchable, search_value
from headrace.views.materializer import ViewMaterializer, open_view
from headrace.views.pull_query import PullQuery
from tests.unit.views.pull_queries import ALL_TYPES, all_rows, append, asked, table, view_in

_, SOURCE = table(ALL_TYPES)
INT64 = st.integers(-(2**63), 2**63 - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal((digits < 0, _digits(digits), -scale)))


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (ty.BIGINT, INT64),
    (ty.DOUBLE, st.floats(allow_nan=False)),
    (ty.STRING, st.text()),
    (ty.BYTES, st.binary()),
    (ty.BOOLEAN, st.booleans()),
    (ty.TIMESTAMP, INT64),
    (ty.decimal(18, 4), _decimals(18, 4)),
    (ty.decimal(19, 0), _decimals(19, 0)),
    (ty.decimal(76, 38), _decimals(76, 38)),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_stored_values_keep_their_order_and_are_read_back(kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    columns = ColumnCodec([Field("K", kind)], in_key=True)

    @given(st.lists(values | st.none(), unique=True))
    def check(given_values: list[Any]) -> None:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE TABLE t (k, PRIMARY KEY (k)) WITHOUT ROWID")
            db.executemany("INSERT INTO t VALUES (?)", [columns.stored((value,)) for value in given_values])
            found = [columns.loaded(row)[0] for row in db.execute("SELECT k FROM t ORDER BY k")]
            assert [repr(value) for value in found if value is not None] == [
                repr(value) for value in sorted(value for value in given_values if value is not None)
            ]
            assert found.count(None) == given_values.count(None)

    check()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ty.decimal(6, 2), Decimal("1.005")),
        (ty.decimal(6, 2), 0.5),
        (ty.decimal(6, 2), 1 << 62),
        (ty.DOUBLE, Decimal("0.1")),
        (ty.array(ty.INT), [1]),
    ],
)
def test_values_that_sqlite_compares_differently_are_not_looked_up(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(NotSearchable):
        search_value(kind, value)


def test_a_file_with_another_layout_is_refused(tmp_path: Path) -> None:
    view_in(tmp_path, SOURCE).close()
    with closing(sqlite3.connect(tmp_path / "views" / "T.sqlite")) as db, db:
        db.execute("UPDATE facts SET layout = 2")
    with pytest.raises(ViewUnreadable, match="its layout is 2, and this version knows 1"):
        view_in(tmp_path, SOURCE)


def test_a_file_that_is_not_a_view_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "views" / "T.sqlite"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE other (a)")
    with pytest.raises(ViewUnreadable, match="it is no view"):
        view_in(tmp_path, SOURCE)


@pytest.mark.parametrize("content", [b"no database at all" * 1000, b"", b"SQLite format 3\0" + bytes(9000)])
def test_a_damaged_file_is_rebuilt_from_the_topic(content: bytes, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        topic = log.create_topic(SOURCE.topic)
        append(log, SOURCE, [(1, (key,), (None,) * 13) for key in range(50)])
        with closing(open_view(tmp_path, SOURCE, topic)) as view:
            assert ViewMaterializer(log, SOURCE, view).step()
        (tmp_path / "views" / "T.sqlite").write_bytes(content)
        with closing(open_view(tmp_path, SOURCE, topic)) as view:
            assert ViewMaterializer(log, SOURCE, view).step()
            assert len(all_rows(view)) == 50


def test_a_file_that_is_damaged_while_it_is_open_is_rebuilt(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        topic = log.create_topic(SOURCE.topic)
        append(log, SOURCE, [(1, (key,), (None,) * 13) for key in range(5000)])
        view = open_view(tmp_path, SOURCE, topic)
        while ViewMaterializer(log, SOURCE, view).step():
            pass
        view.close()
        with closing(open_view(tmp_path, SOURCE, topic)) as view:
            with open(tmp_path / "views" / "T.sqlite", "r+b") as file:
                size = file.seek(0, 2)
                file.seek(size // 2)
                file.write(b"\xff" * (size - size // 2))
            materializer = ViewMaterializer(log, SOURCE, view)
            with pytest.raises(ViewDamaged, match="is rebuilt from its topic"):
                all_rows(view)
            while materializer.step():
                pass
            assert len(all_rows(view)) == 5000
            assert "its file was damaged" in view.state().reason


def test_a_rebuild_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    with closing(view_in(tmp_path, SOURCE)) as view:
        view.apply(view.state(), [(1, (1,), (None,) * 13)], {0: 9})
        with suppress(ViewDamaged), view.snapshot():
            raise sqlite3.DatabaseError("database disk image is malformed")
        with monkeypatch.context() as full:
            full.setattr(sqlite3, "connect", refuse)
            with pytest.raises(Exception, match="unable to open"):
                view.recover()
        assert view.recover()
        assert (view.state().position, view.state().rebuilt) == ({}, 1)
        assert not view.recover()


def test_a_recreated_topic_rebuilds_the_view(tmp_path: Path) -> None:
    with closing(view_in(tmp_path, SOURCE)) as view:
        view.apply(view.state(), [(1, (1,), (None,) * 13)], {0: 9})
    with closing(open_view(tmp_path, SOURCE, Topic("t", TopicSpec(), 8))) as view:
        assert view.state().position == {}


def test_a_pull_query_uses_an_index_of_the_table(tmp_path: Path) -> None:
    catalog, source = table(
        "CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, CITY STRING, N DOUBLE) "
        "WITH (kafka_topic='t', format='JSON', partitions=1, indexes='city; city, n');"
    )
    with EmbeddedLog(tmp_path / "log") as log, closing(view_in(tmp_path, source)) as view:
        log.create_topic("t")
        assert not ViewMaterializer(log, source, view).step()
        assert view.indexes() == [("CITY",), ("CITY", "N")]
        for condition, wanted in [
            ("CITY = 'a'", "own1 (v0=?)"),
            ("CITY IN ('a', 'b') AND N > 1E0", "own2 (v0=? AND v1>?)"),
            ("ID = 3", "PRIMARY KEY (k0=?)"),
        ]:
            asking = PullQuery(asked(catalog, f"SELECT * FROM T WHERE {condition};").query)
            assert wanted in _plan(tmp_path / "views" / "T.sqlite", *view.table.scan(asking.selection))
        ViewMaterializer(log, replace(source, indexes=(("N",),)), view).step()
        assert view.indexes() == [("N",)]


def _plan(path: Path, statement: str, values: list[Any]) -> str:
    with closing(sqlite3.connect(path)) as db:
        return "\n".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))


def test_different_names_have_different_files(tmp_path: Path) -> None:
    for name in ("A", "a", "%61.", "../x", "Ä"):
        open_view(tmp_path, replace(SOURCE, name=name), Topic("t", TopicSpec(), 8)).close()
    assert len(list((tmp_path / "views").glob("*.sqlite"))) == 5
