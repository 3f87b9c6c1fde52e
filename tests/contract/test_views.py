"""The contract of views, in SQLite and in PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pg8000.exceptions import DatabaseError

from headrace.contracts import Topic, TopicSpec
from headrace.errors import Closed, ColumnNotFound, ViewReplaced
from headrace.plan.analysis.lookup import Bound, Selection
from headrace.plan.expressions import Compare
from headrace.plan.relations import Kind, Relation, Window, WindowKind
from headrace.plan.sources import SourceInfo
from headrace.plan.types import BIGINT, DOUBLE, STRING
from headrace.schema import Field
from headrace.settings import Settings
from headrace.views.contract import View, ViewState
from headrace.views.stores import open_store
from tests.unit.views.pull_queries import ALL_TYPES, all_rows, table

Open = Callable[[SourceInfo | Relation], View]
PLAIN = Relation(Kind.TABLE, (Field("K", STRING), Field("L", BIGINT)), (Field("V", BIGINT), Field("D", DOUBLE)))


def windowed(retention: timedelta | None = None) -> Relation:
    window = Window(WindowKind.TUMBLING, timedelta(milliseconds=10), retention=retention)
    return Relation(Kind.TABLE, (Field("K", STRING),), (Field("V", BIGINT),), window)


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Those of a store."""
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else ""
    return Settings.of(storage_data=tmp_path, views_backend=request.param, views_postgres_url=url)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Open]:
    """The same view again and again, each time as another process would open it."""
    _, source = table(ALL_TYPES)
    with ExitStack() as stack:

        def open_one(what: SourceInfo | Relation) -> View:
            info = replace(source, relation=what) if isinstance(what, Relation) else what
            store = stack.enter_context(closing(open_store(settings)))
            return stack.enter_context(closing(store.open(info, Topic(info.topic, TopicSpec(), 7))))

        yield open_one


def applied(view: View, events: list[Any], position: dict[int, int] | None = None, **how: Any) -> ViewState:
    state = view.apply(view.state(), events, position or {}, **how)
    assert state is not None
    return state


def found(view: View, *bounds: Bound) -> list[Any]:
    with view.snapshot() as snapshot:
        return sorted(event[1:] for batch in snapshot.scan(Selection((bounds,))) for event in batch)


def test_rows_and_position_change_together(opened: Open) -> None:
    view = opened(PLAIN)
    assert view.state() == ViewState()
    first = applied(view, [(5, ("a", 1), (10, 0.5)), (6, ("b", 2), (20, None))], {0: 2}, skipped=3)
    second = applied(view, [(7, ("a", 1), None), (8, ("c", 3), (30, -0.0))], {1: 4})
    assert (first.version, first.position, first.skipped, first.stream_time) == (1, {0: 2}, 3, 6)
    assert (second.version, second.position, second.skipped, second.stream_time) == (2, {0: 2, 1: 4}, 3, 8)
    again = opened(PLAIN)
    assert again.state() == second
    assert all_rows(again) == {
        "('b', 2)": (6, ("b", 2), (20, None)),
        "('c', 3)": (8, ("c", 3), (30, -0.0)),
    }


def test_the_last_change_of_a_key_wins_whatever_its_time(opened: Open) -> None:
    view = opened(PLAIN)
    applied(view, [(9, ("a", 1), (1, 1.0)), (3, ("a", 1), None), (2, ("a", 1), (2, 2.0)), (1, ("b", 1), None)])
    with view.snapshot() as snapshot:
        assert snapshot.get([("a", 1), ("b", 1), ("a", 2)]) == [(2, ("a", 1), (2, 2.0))]
        assert snapshot.count() == 1


def test_changes_based_on_another_state_are_refused(opened: Open) -> None:
    one, other = opened(PLAIN), opened(PLAIN)
    begun = one.state()
    assert other.apply(begun, [(1, ("a", 1), (1, 1.0))], {0: 1}) is not None
    assert one.apply(begun, [(1, ("a", 1), (2, 2.0))], {0: 1}) is None
    assert one.restart(begun, "no") is None
    assert all_rows(one)["('a', 1)"][2] == (1, 1.0)


def test_a_snapshot_does_not_change(opened: Open) -> None:
    view = opened(PLAIN)
    applied(view, [(1, ("a", i), (i, 0.0)) for i in range(100)], {0: 100})
    with view.snapshot() as snapshot:
        begun = next(scan := snapshot.scan(batch=10))
        applied(view, [(2, ("a", i), None) for i in range(100)], {0: 200})
        rest = [event for batch in scan for event in batch]
        assert len(begun) + len(rest) == snapshot.count() == 100
        assert snapshot.state.position == {0: 100}
        assert view.state().position == {0: 200}
    assert all_rows(view) == {}


def test_a_failed_change_is_rolled_back(opened: Open) -> None:
    view = opened(PLAIN)
    applied(view, [(1, ("a", 1), (1, 1.0))], {0: 1})
    with pytest.raises((OverflowError, DatabaseError)):
        applied(view, [(2, ("a", 1), None), (2, ("b", 1), (1 << 80, 1.0))], {0: 3})
    assert view.state().position == {0: 1}
    assert len(all_rows(view)) == 1
    applied(view, [(2, ("a", 1), None)], {0: 3})


KEYS = [("", 0), ("a", 1), ("a", 2), ("b", 1), ("ab", -1), ("é", 2**63 - 1), ("\U0001f600", 1), ("￿", 1), (None, 5)]


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ([Bound("K", Compare.EQUAL, ("a",))], [("a", 1), ("a", 2)]),
        ([Bound("K", Compare.EQUAL, ("a", "b")), Bound("L", Compare.EQUAL, (1,))], [("a", 1), ("b", 1)]),
        ([Bound("K", Compare.GREATER, ("b",))], [("é", 2**63 - 1), ("￿", 1), ("\U0001f600", 1)]),
        ([Bound("K", Compare.LESS_OR_EQUAL, ("a",))], [("", 0), ("a", 1), ("a", 2)]),
        ([Bound("L", Compare.GREATER_OR_EQUAL, (2,))], [("a", 2), ("é", 2**63 - 1), (None, 5)]),
        ([Bound("L", Compare.LESS, (0.5,))], [("", 0), ("ab", -1)]),
        ([Bound("V", Compare.EQUAL, (4, 7))], [("ab", -1), ("￿", 1)]),
        ([Bound("D", Compare.EQUAL, (math.nan,))], [("é", 2**63 - 1)]),
        ([Bound("ROWTIME", Compare.LESS, (1,))], [("", 0)]),
        ([Bound("NONE", Compare.EQUAL, (1,))], KEYS),
        ([Bound("K", Compare.EQUAL, ())], []),
    ],
    ids=str,
)
def test_rows_are_found_by_lookup(opened: Open, bounds: list[Bound], wanted: list[Any]) -> None:
    view = opened(PLAIN)
    doubles = {5: math.nan, 6: -0.0}
    applied(view, [(i, key, (i, doubles.get(i, i / 2))) for i, key in enumerate(KEYS)])
    for _ in range(2):
        with view.snapshot() as snapshot:
            events = [event for batch in snapshot.scan(Selection((tuple(bounds),))) for event in batch]
            assert list(snapshot.scan(Selection(()))) == []
        # In SQLite null lies before all text, and a selection may be too wide: the chain decides.
        found = [event[1] for event in events if event[1] in wanted or event[1] != (None, 5)]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        view.create_index(["V"])
        view.create_index(["D", "L"])
    assert view.indexes() == [("V",), ("D", "L")]


def test_an_index_on_unknown_columns_is_refused(opened: Open) -> None:
    view = opened(PLAIN)
    view.create_index(["V"])
    assert opened(PLAIN).indexes() == [("V",)]
    with pytest.raises(ColumnNotFound):
        view.create_index(["v; DROP TABLE rows"])
    view.drop_index(["V"])
    view.drop_index(["V"])
    assert opened(PLAIN).indexes() == []
    view.create_index(["V"])
    assert view.indexes() == [("V",)]


def test_keys_and_values_may_be_long(opened: Open) -> None:
    view = opened(PLAIN)
    view.create_index(["K", "V"])
    keys = [("é\\\"'{,}" * 100_000 + end, 1) for end in ("", "a", "b")]
    applied(view, [(0, key, (i, 0.0)) for i, key in enumerate(keys)])
    assert found(view, Bound("K", Compare.EQUAL, (keys[1][0],))) == [(keys[1], (1, 0.0))]
    assert found(view, Bound("K", Compare.GREATER, (keys[1][0],))) == [(keys[2], (2, 0.0))]
    assert len(found(view, Bound("K", Compare.LESS, (keys[2][0],)))) == 2
    applied(view, [(0, keys[0], None)])
    assert found(view) == [(keys[1], (1, 0.0)), (keys[2], (2, 0.0))]


def test_removing_a_view_deletes_all_of_it(opened: Open) -> None:
    view = opened(PLAIN)
    applied(view, [(1, ("a", 1), (1, 1.0))], {0: 1})
    view.remove()
    assert opened(PLAIN).state() == ViewState()


def test_keys_have_the_equality_of_ksql(opened: Open) -> None:
    view = opened(Relation(Kind.TABLE, (Field("K", DOUBLE), Field("L", STRING)), (Field("V", BIGINT),)))
    keys = [(0.0, "a"), (-0.0, "a"), (math.nan, "a"), (math.nan, "a"), (None, "a"), (None, "a"), (1.0, None), (1.0, "")]
    applied(view, [(0, key, (i,)) for i, key in enumerate(keys[::2])])
    applied(view, [(0, key, (i,)) for i, key in enumerate(keys)])
    rows = {repr(key): row[0] for _, key, row in all_rows(view).values() if row}
    assert rows == {"(-0.0, 'a')": 1, "(nan, 'a')": 3, "(None, 'a')": 5, "(1.0, None)": 6, "(1.0, '')": 7}


def test_windows_are_part_of_the_key_and_expire_with_their_retention(opened: Open) -> None:
    view = opened(windowed(timedelta(milliseconds=20)))
    applied(view, [(5, ("a", (0, 10)), (1,)), (12, ("a", (10, 20)), (2,)), (3, ("b", (0, 10)), (3,))])
    assert found(view, Bound("WINDOWSTART", Compare.EQUAL, (0,))) == [(("a", (0, 10)), (1,)), (("b", (0, 10)), (3,))]
    assert found(view, Bound("K", Compare.EQUAL, ("a",)), Bound("WINDOWEND", Compare.GREATER, (10,))) == [
        (("a", (10, 20)), (2,))
    ]
    applied(view, [(31, ("c", (30, 40)), (4,))])
    assert sorted(all_rows(view)) == ["('a', (10, 20))", "('c', (30, 40))"]
    applied(view, [(4, ("b", (0, 10)), (5,))])
    assert sorted(all_rows(view)) == ["('a', (10, 20))", "('c', (30, 40))"]
    with view.snapshot() as snapshot:
        assert snapshot.get([("a", (10, 20)), ("a", (0, 10))]) == [(12, ("a", (10, 20)), (2,))]


def test_windows_without_a_retention_are_kept(opened: Open) -> None:
    view = opened(windowed())
    applied(view, [(5, ("a", (0, 10)), (1,)), (10**12, ("a", (10**12, 10**12 + 10)), (2,))])
    assert len(all_rows(view)) == 2


def test_a_view_of_another_source_is_rebuilt(opened: Open) -> None:
    before = applied(opened(PLAIN), [(1, ("a", 1), (1, 1.0))], {0: 1})
    view = opened(windowed())
    assert all_rows(view) == {}
    assert view.state().position == {}
    assert view.state().version > before.version
    assert (view.state().rebuilt, view.state().reason) == (1, "the table is another")


def test_a_view_can_be_rebuilt(opened: Open) -> None:
    view = opened(PLAIN)
    view.create_index(["V"])
    applied(view, [(1, ("a", 1), (1, 1.0))], {0: 1}, skipped=2)
    state = view.restart(view.state(), "why")
    assert state == ViewState(2, {}, -1, 2, 1, "why") == view.state()
    assert all_rows(view) == {}
    assert view.indexes() == [("V",)]


def test_values_of_all_types_are_read_back_exactly(opened: Open) -> None:
    _, source = table(ALL_TYPES)
    view = opened(source)
    wide = Decimal("-12345678901234567890123456.7891")
    rows = [
        (1, -0.0, "", True, Decimal("-0.05"), wide, b"\x00", -1, 1, -5, [1, None], {"a": math.inf, "": None}, None),
        (None,) * 13,
        (2**31 - 1, 5e-324, "a\x00é\U0001f600", False, Decimal("9999.99"), wide.copy_negate(), b"", 0, 0, 2**60, [], {},
         {"Y": Decimal("1.5"), "Z": None}),
    ]  # fmt: skip
    applied(view, [(i, (i,), row) for i, row in enumerate(rows)])
    assert [repr(event[2]) for _, event in sorted(all_rows(view).items())] == [repr(row) for row in rows]


def test_a_closed_view_refuses_queries(opened: Open) -> None:
    view = opened(PLAIN)
    with view.snapshot() as snapshot:
        view.close()
        assert snapshot.count() == 0
    with pytest.raises(Closed):
        view.state()


def test_an_unknown_column_suggests_the_nearest_one(opened: Open) -> None:
    view = opened(Relation(Kind.TABLE, (Field("K", STRING),), (Field("AMOUNT", BIGINT),)))
    for name, fix in (("AMONT", 'did you mean "AMOUNT"?'), ("X", "its columns are: ROWTIME, K, AMOUNT")):
        with pytest.raises(ColumnNotFound) as refused:
            view.create_index([name])
        assert refused.value.fix == fix


def test_a_reader_reads_the_view_of_its_own_table_only(settings: Settings) -> None:
    _, source = table(ALL_TYPES)
    earlier, later = (Topic(source.topic, TopicSpec(), created_at) for created_at in (7, 8))
    with closing(open_store(settings)) as store, closing(open_store(settings)) as other:
        with pytest.raises(ViewReplaced), other.reader(source, earlier).snapshot():  # there is no view yet
            pass
        view = store.open(source, earlier)
        applied(view, [(1, (1,), (None,) * 13)], {0: 1})
        with other.reader(source, earlier).snapshot() as snapshot:
            assert snapshot.count() == 1
        view.close()
        replaced = store.open(source, later)
        assert replaced.state().position == {}
        with pytest.raises(ViewReplaced), other.reader(source, earlier).snapshot():
            pass
        with other.reader(source, later).snapshot() as snapshot:
            assert snapshot.count() == 0
        replaced.remove()
        with pytest.raises(ViewReplaced), other.reader(source, later).snapshot():
            pass
        replaced.close()
