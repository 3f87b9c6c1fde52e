"""Views in PostgreSQL: what is specific to a shared server that can fail and recover."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from headrace.contracts import Topic, TopicSpec
from headrace.control.verify.view import compare_view
from headrace.errors import DatabaseRefused, DatabaseUnreachable, ViewUnreadable
from headrace.log.embedded import EmbeddedLog
from headrace.log.topic_spec import ensure_topic
from headrace.plan import types as ty
from headrace.plan.analysis.lookup import EVERYTHING, Bound, Selection
from headrace.plan.expressions import Compare
from headrace.views import postgres_connection
from headrace.views.column_encoding import NotSearchable
from headrace.views.contract import View
from headrace.views.materializer import ViewMaterializer
from headrace.views.materializer_loop import MaterializerLoop
from headrace.views.postgres import PostgresStore, PostgresView
from headrace.views.postgres_connection import ConnectionPool, PostgresAddress, PostgresSession
from headrace.views.postgres_table import search_values
from headrace.views.pull_query import PullQuery
from tests.postgres_server import Postgres
from tests.unit.control.verify import test_view
from tests.unit.views import test_pull_query, test_view_machine
from tests.unit.views.pull_queries import all_rows, append, asked, table

TOPIC = Topic("t", TopicSpec(), 7)
DECLARED = """
CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, N BIGINT, S STRING) WITH (kafka_topic='t', format='JSON', partitions=1,
  indexes='n; s, n');
"""
_, SOURCE = table(DECLARED)
PATIENCE = timedelta(seconds=60)


@pytest.fixture
def store(postgres: Postgres, tmp_path: Path) -> Iterator[PostgresStore]:
    with closing(PostgresStore(tmp_path, postgres.url)) as store:
        yield store


def test_a_view_under_random_operations_agrees_with_its_model(store: PostgresStore) -> None:
    names = iter(range(10**6))

    class Views(test_view_machine.Views):
        def __init__(self) -> None:
            self.name = f"T{next(names)}"
            super().__init__()

        def opened(self) -> View:
            return store.open(replace(test_view_machine.SOURCE, name=self.name), self.topic)

    few = settings(deadline=None, max_examples=10, stateful_step_count=20, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Views, settings=few)


def test_a_selection_contains_every_matching_row(store: PostgresStore) -> None:
    view = store.open(test_pull_query.SOURCE, TOPIC)
    for column in ("S", "D", "P", "W", "X"):
        view.create_index([column])

    @settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(test_pull_query.numbers, test_pull_query.rows, max_size=8), test_pull_query.conditions)
    def check(rows: dict[int, Any], condition: str) -> None:
        begun = view.restart(view.state(), "")
        assert begun is not None
        view.apply(begun, [(abs(key), (key,), row) for key, row in rows.items()], {0: 1})
        query = asked(test_pull_query.CATALOG, f"SELECT * FROM T WHERE {condition};").query
        looked_up, tried = PullQuery(query), PullQuery(query)
        tried.selection = EVERYTHING
        assert _said(looked_up, view) == _said(tried, view)

    check()


def _said(pull: PullQuery, view: View) -> list[str]:
    with pull.over(view) as found:
        return sorted(repr(row) for batch in found.batches for row in batch)


def test_any_text_and_bytes_keep_their_order(store: PostgresStore) -> None:
    text = "CREATE SOURCE TABLE T (K STRING PRIMARY KEY, B BYTES) WITH (kafka_topic='t', format='JSON', partitions=1);"
    view = store.open(table(text)[1], TOPIC)
    texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x01\x02\\\"'{}, ax"), max_size=6)

    @settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(texts, st.binary(max_size=5), max_size=8), texts)
    def check(rows: dict[str, bytes], bound: str) -> None:
        begun = view.restart(view.state(), "")
        assert begun is not None
        view.apply(begun, [(0, (key,), (value,)) for key, value in rows.items()], {0: 1})
        assert {key[0]: row[0] for _, key, row in all_rows(view).values() if key and row} == rows
        for op, holds in (
            (Compare.LESS, str.__lt__),
            (Compare.GREATER_OR_EQUAL, str.__ge__),
            (Compare.EQUAL, str.__eq__),
        ):
            with view.snapshot() as snapshot:
                batches = snapshot.scan(Selection(((Bound("K", op, (bound,)),),)))
                found = {event[1][0] for batch in batches for event in batch if event[1]}
            assert found == {key for key in rows if holds(key, bound)}

    check()


@pytest.mark.parametrize(
    ("kind", "op", "value", "wanted"),
    [
        (ty.BIGINT, Compare.LESS, 0.5, ["1"]),
        (ty.BIGINT, Compare.GREATER, -0.5, ["-1"]),
        (ty.BIGINT, Compare.EQUAL, 0.5, []),
        (ty.BIGINT, Compare.EQUAL, 2.0, ["2"]),
        (ty.BIGINT, Compare.LESS, math.inf, None),
        (ty.BIGINT, Compare.LESS, 1 << 70, None),
        (ty.BIGINT, Compare.EQUAL, Decimal(1), None),
        (ty.DOUBLE, Compare.EQUAL, (1 << 53) + 1, None),
        (ty.DOUBLE, Compare.EQUAL, Decimal("0.1"), None),
        (ty.DOUBLE, Compare.EQUAL, math.nan, ["nan"]),
        (ty.decimal(6, 2), Compare.EQUAL, Decimal("1.005"), ["1.005"]),
        (ty.decimal(6, 2), Compare.EQUAL, 0.5, None),
        (ty.BOOLEAN, Compare.EQUAL, 1, None),
        (ty.array(ty.INT), Compare.EQUAL, [1], None),
    ],
)
def test_lookups_agree_with_the_chain(kind: Any, op: Compare, value: Any, wanted: list[str] | None) -> None:
    if wanted is None:
        with pytest.raises(NotSearchable):
            search_values(kind, op, value)
    else:
        assert search_values(kind, op, value) == wanted


def plan_of(view: PostgresView, bound: Bound) -> str:
    with view._transaction() as (db, place):
        statement, values = place.table.scan(Selection(((bound,),)))
        db.run("SET LOCAL enable_seqscan = off")
        return "\n".join(line for (line,) in db.run(f"EXPLAIN {statement}", *values))


def test_conditions_use_indexes(store: PostgresStore) -> None:
    view = store.open(SOURCE, TOPIC)
    view.create_index(["N"])
    view.create_index(["S", "N"])
    for bound in (
        Bound("ID", Compare.EQUAL, (1, 2)),
        Bound("ID", Compare.GREATER, (1,)),
        Bound("N", Compare.EQUAL, (1,)),
        Bound("S", Compare.EQUAL, ("a",)),
        Bound("S", Compare.LESS, ("a",)),
    ):
        plan = plan_of(view, bound)
        assert "Index Cond" in plan, plan


# -- the server goes and comes --------------------------------------------------------------------------------------


def test_materializing_resumes_when_the_server_is_back(tmp_path: Path) -> None:
    with (
        Postgres.start() as postgres,
        EmbeddedLog(tmp_path / "log") as log,
        closing(PostgresStore(tmp_path, postgres.url)) as store,
    ):
        log.create_topic("t", TopicSpec(partitions=1))
        append(log, SOURCE, [(5, (i,), (i, "a")) for i in range(10)])
        postgres.end()
        view = store.open(SOURCE, log.topic("t"))
        with closing(MaterializerLoop(log)) as keeping:
            keeping.add(ViewMaterializer(log, SOURCE, view))
            with pytest.raises(DatabaseUnreachable, match="cannot be used now"):
                view.state()
            postgres.start_again()
            assert keeping.reached("T", {0: 10}, PATIENCE).version >= 1
            assert view.indexes() == [("N",), ("S", "N")]
            postgres.end(signal.SIGQUIT)  # connections that are kept for later are cut off
            append(log, SOURCE, [(6, (i,), (i, "b")) for i in range(5)])
            postgres.start_again()
            keeping.reached("T", {0: 15}, PATIENCE)
            assert {key[0]: row[1] for _, key, row in all_rows(view).values()} == {i: "ba"[i > 4] for i in range(10)}


def test_a_dropped_view_is_rebuilt(store: PostgresStore, postgres: Postgres, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create_topic("t", TopicSpec(partitions=1))
        append(log, SOURCE, [(5, (i,), (i, None)) for i in range(10)])
        view = store.open(SOURCE, log.topic("t"))
        keeper = ViewMaterializer(log, SOURCE, view)
        while keeper.step():
            pass
        with closing(ConnectionPool(postgres.url)) as other, other.transaction() as db:
            db.run(f"DROP SCHEMA {store.schema} CASCADE")
        append(log, SOURCE, [(5, (10,), (10, None))])
        with pytest.raises(DatabaseUnreachable, match="no longer exists"):
            keeper.step()
        while keeper.step():
            pass
        assert len(all_rows(view)) == 11
        assert view.indexes() == [("N",), ("S", "N")]


def test_two_servers_materialize_one_view(store: PostgresStore, postgres: Postgres, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log, closing(PostgresStore(tmp_path, postgres.url)) as other:
        log.create_topic("t", TopicSpec(partitions=1))
        keepers = [ViewMaterializer(log, SOURCE, one.open(SOURCE, log.topic("t")), at_once=3) for one in (store, other)]
        for round_ in range(5):
            append(log, SOURCE, [(5, (i,), (round_, None)) for i in range(10)])
            while sum(keeper.step() for keeper in keepers):
                pass
        assert keepers[0].state == keepers[1].state
        assert {row[0] for _, _, row in all_rows(keepers[0].view).values() if row} == {4}


@pytest.mark.parametrize("more", ["", test_view.WINDOWED], ids=["plain", "windowed"])
def test_a_view_is_compared_with_its_topic(store: PostgresStore, postgres: Postgres, tmp_path: Path, more: str) -> None:
    """Nothing is made for it, and nothing of an older table is removed."""
    with EmbeddedLog(tmp_path) as log, closing(ConnectionPool(postgres.url)) as database:
        info = test_view.filled(log, more)
        assert compare_view(log, store, info, 20) is None
        with database.transaction() as db:
            assert db.run(f"SELECT to_regnamespace('{store.schema}')") == [(None,)]
        test_view.check_position(log, store, info)
        with database.transaction() as db:
            counts = [db.count(text.replace("rows", f"{store.schema}.rows1")) for text in test_view.TAMPERING]
        test_view.check_tampering(log, store, info, counts)
        log.delete_topic("t")
        ensure_topic(log, "t")
        assert compare_view(log, store, info, 20) is None
        with database.transaction() as db:
            assert db.run(f"SELECT count(*) FROM {store.schema}.views") == [(1,)]


def test_a_client_of_an_older_table_is_refused(store: PostgresStore) -> None:
    older = store.open(SOURCE, TOPIC)
    older.apply(older.state(), [(1, (1,), (1, "a"))], {0: 1})
    newer = store.open(SOURCE, replace(TOPIC, created_at=8))
    assert newer.state().rebuilt == 1
    with pytest.raises(ViewUnreadable, match="somebody else keeps it"):
        older.state()
    assert older.apply(newer.state(), [(1, (1,), (1, "a"))], {0: 1}) is None


def test_a_database_restored_to_an_older_state_is_detected(store: PostgresStore) -> None:
    """A database that was restored has other states under the same versions."""
    view = store.open(SOURCE, TOPIC)
    begun = view.state()
    view.apply(begun, [], {0: 5})
    assert view.apply(replace(begun, version=1, position={0: 4}), [(1, (1,), (1, "a"))], {0: 6}) is None


# -- what is refused ------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    with closing(PostgresStore(tmp_path, f"postgresql://tester:no@/postgres?host={postgres.folder}")) as store:
        view = store.open(SOURCE, TOPIC)
        with pytest.raises(DatabaseRefused, match="password authentication failed"):
            view.state()


@pytest.mark.parametrize("named", ["none", "latin"])
def test_an_unsuitable_database_is_refused(postgres: Postgres, tmp_path: Path, named: str) -> None:
    if named == "latin":
        with closing(PostgresSession(PostgresAddress.parse(postgres.url))) as db:
            db.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with closing(PostgresStore(tmp_path, postgres.url.replace("/postgres?", f"/{named}?"))) as store:
        view = store.open(SOURCE, TOPIC)
        with pytest.raises(DatabaseRefused, match=r"does not exist|encoding LATIN1"):
            view.state()


def test_an_unreachable_server_is_an_error(tmp_path: Path) -> None:
    with closing(PostgresStore(tmp_path, "postgresql://u:p@127.0.0.1:1/d")) as store:
        view = store.open(SOURCE, TOPIC)
        with pytest.raises(DatabaseUnreachable) as told:
            view.state()
        assert told.value.where == "d at 127.0.0.1:1"


def test_an_unreachable_server_is_retried_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_at = list[float]()
    times = iter([0.0, 10.0, 19.9, 20.1, 20.1])
    monkeypatch.setattr(postgres_connection, "monotonic", lambda: next(times))
    monkeypatch.setattr(
        postgres_connection, "PostgresSession", lambda address: (asked_at.append(0), PostgresSession(address))
    )
    with closing(ConnectionPool("postgresql://u:p@127.0.0.1:1/d")) as nobody:
        for attempts in (1, 1, 2):
            with pytest.raises(DatabaseUnreachable), nobody.transaction():
                pass
            assert len(asked_at) == attempts


def test_a_database_with_another_layout_is_refused(store: PostgresStore, postgres: Postgres) -> None:
    store.open(SOURCE, TOPIC).state()
    with closing(ConnectionPool(postgres.url)) as other, other.transaction() as db:
        db.run(f"UPDATE {store.schema}.views SET layout = 2")
    again = store.open(SOURCE, TOPIC)
    with pytest.raises(ViewUnreadable, match="its layout is 2, and this version knows 1"):
        again.state()


def test_a_password_is_never_shown_with_its_address() -> None:
    address = PostgresAddress.parse("postgres://me:p%40ss@db.example/sales?sslmode=verify-full&sslrootcert=ca.pem")
    assert (address.host, address.port, address.database, address.user) == ("db.example", 5432, "sales", "me")
    assert (address.password, address.security, address.authority) == ("p@ss", "verify-full", "ca.pem")
    assert "p@ss" not in repr(address) + str(address)
