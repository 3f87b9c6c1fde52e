"""Custom operators: state and timers by key, in memory, in any batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import BadKey, BadPython, BadType, WrongKind
from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import Query
from headrace.plan.steps import Context


class Visits(hr.Operator):
    """A visit ends ten seconds after its last click; `alert` comes if it lasts longer than fifteen."""

    output: ClassVar[str] = "what STRING, pages BIGINT"

    def on_event(self, event: hr.Event, ctx: hr.KeyContext) -> None:
        if event.page == "/fail":
            ctx.state["pages"] = 1_000  # must not be seen again
            ctx.emit(what="never")
            ctx.set_timer(0, "never")
            raise ValueError("this page fails")
        if ctx.state is None:
            ctx.state = {"pages": 0}
            ctx.set_timer(event.time + 15_000, "alert")
        ctx.state["pages"] += 1
        ctx.set_timer(max(event.time + 10_000, ctx.now))
        if event["page"] == "/bye":
            ctx.cancel_timer("alert")

    def on_timer(self, timer: hr.Timer, ctx: hr.KeyContext) -> None:
        if timer.name == "alert":
            ctx.emit(what="alert", pages=ctx.state["pages"])
        else:
            ctx.emit(what="end", pages=ctx.state["pages"])
            ctx.cancel_timer("alert")
            ctx.state = None


def app_of(operator: type[hr.Operator] = Visits) -> hr.App:
    app = hr.App()
    app.stream("clicks", "user STRING KEY, page STRING").operate(operator).to_stream("visits")
    return app


@pytest.fixture
def trial() -> Iterator[hr.testing.Trial]:
    with hr.testing.run(app_of()) as running:
        yield running


def click(trial: hr.testing.Trial, at: int, user: str | None = "ann", page: str = "/") -> None:
    trial.send("clicks", [{"user": user, "page": page}], at=at * 1000)


def said(trial: hr.testing.Trial) -> list[tuple[str, str, int]]:
    return [(row["user"], row["what"], row["pages"]) for row in trial.rows("visits")]


def test_timers_fire_by_stream_time(trial: hr.testing.Trial) -> None:
    click(trial, 0)
    click(trial, 9)
    click(trial, 16, "bob")  # ann's alert was due at 15
    assert said(trial) == [("ann", "alert", 2)]
    click(trial, 30, "bob")  # ann's end at 19, bob's at 26: in this order, before the click
    assert said(trial)[1:] == [("ann", "end", 2), ("bob", "end", 1)]
    assert [entry.timestamp for entry in trial.world.topics["VISITS"]] == [15_000, 19_000, 26_000]


def test_timers_fire_when_time_passes_without_a_record(trial: hr.testing.Trial) -> None:
    click(trial, 0)
    trial.advance(seconds=9)
    assert said(trial) == []
    trial.advance(seconds=1)
    assert said(trial) == [("ann", "end", 1)]
    assert trial.world.running["CSAS_VISITS_0"].stores["operate-0/states"] == {}
    assert trial.world.running["CSAS_VISITS_0"].stores["operate-0/armed"] == {}


def test_a_cancelled_timer_does_not_fire(trial: hr.testing.Trial) -> None:
    click(trial, 0)
    click(trial, 9, page="/bye")
    click(trial, 18, "bob")
    assert said(trial) == []


def test_a_failing_call_changes_no_state_and_is_reported(trial: hr.testing.Trial) -> None:
    click(trial, 0)
    click(trial, 5, page="/fail")
    trial.advance(seconds=60)
    assert said(trial) == [("ann", "end", 1)]
    assert [(p.code, p.reason, p.where) for p in trial.problems] == [
        ("operator-failed", "this page fails", "operator VISITS")
    ]


def test_rows_without_a_key_are_reported(trial: hr.testing.Trial) -> None:
    click(trial, 0, None)
    assert [p.code for p in trial.problems] == ["null-key"]


class Odd(hr.Operator):
    output: ClassVar[str] = "n BIGINT"

    def on_event(self, event: hr.Event, ctx: hr.KeyContext) -> None:
        {
            "state": lambda: setattr(ctx, "state", object()),
            "column": lambda: ctx.emit(m=1),
            "type": lambda: ctx.emit(n="x"),
            "time": lambda: ctx.set_timer(-1),
            "missing": lambda: event.nothing,
            "loop": lambda: ctx.set_timer(event.time + 1),
        }[event.page]()

    def on_timer(self, timer: hr.Timer, ctx: hr.KeyContext) -> None:
        ctx.set_timer(timer.time)


@pytest.mark.parametrize("what", ["state", "column", "type", "time", "missing", "loop"])
def test_invalid_results_of_an_operator_are_reported(what: str) -> None:
    with hr.testing.run(app_of(Odd)) as trial:
        click(trial, 0, page=what)
        trial.advance(seconds=5)
        assert [p.code for p in trial.problems] == ["operator-failed"]
        assert trial.rows("visits") == []


def test_operators_run_in_ksql_and_after_other_steps() -> None:
    app = hr.App()
    app.operator(Visits)
    app.stream("clicks", "id BIGINT KEY, user STRING, page STRING")
    app.ksql("""
        CREATE STREAM visits AS SELECT user, what AS w, pages + 1 AS more
        FROM Visits(TABLE (SELECT user, page FROM clicks WHERE page <> '/hidden' PARTITION BY user)) AS v
        WHERE what = 'end';
    """)
    same = hr.App()
    clicks = same.stream("clicks", "id BIGINT KEY, user STRING, page STRING")
    kept = clicks.where(hr.col.page != "/hidden").key_by("user").select("user", "page").operate(Visits)
    kept.where(hr.col.what == "end").select("user", w="what", more=hr.col.pages + 1).to_stream("visits")
    assert same.catalog.queries == app.catalog.queries
    with hr.testing.run(app) as trial:
        trial.send("clicks", [{"id": 1, "user": "ann", "page": "/"}, {"id": 2, "user": "ann", "page": "/hidden"}])
        trial.advance(minutes=1)
        assert trial.rows("visits") == [{"user": "ann", "w": "end", "more": 2}]


def test_invalid_operators_are_refused() -> None:
    app = hr.App()
    users = app.table("users", "user STRING PRIMARY KEY, page STRING")
    with pytest.raises(WrongKind):
        users.operate(Visits).to_stream("x")
    with pytest.raises(BadKey):
        app.stream("bare", "page STRING").operate(Visits).to_stream("x")
    with pytest.raises(BadPython):
        app.operator(hr.Operator)
    wrong = type("Wrong", (hr.Operator,), {"output": "n BIGIN"})
    with pytest.raises(BadType, match="BIGIN") as raised:
        app.operator(wrong)
    assert "test_operators.py" in (raised.value.where or "")


CLICKS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.sampled_from(["/", "/bye", "/fail", None])), max_size=25
)


@given(CLICKS, st.lists(st.integers(0, 25), max_size=5))
def test_any_batches_give_the_same_results(clicks: list[Any], cuts: list[int]) -> None:
    query = app_of().catalog.queries["CSAS_VISITS_0"]
    events = [(at * 1000, (user,), None if page is None else (page,)) for at, user, page in clicks]
    whole = fed(query, [events])
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(events)), len(events)]
    assert fed(query, [events[a:b] for a, b in pairwise(bounds)]) == whole


class Timing(hr.Operator):
    """Does to its timers what the event says, and tells which fire."""

    output: ClassVar[str] = "name STRING"

    def on_event(self, event: hr.Event, ctx: hr.KeyContext) -> None:
        if event.delay is None:
            ctx.cancel_timer(event.name)
        else:
            ctx.set_timer(event.time + event.delay, event.name)

    def on_timer(self, timer: hr.Timer, ctx: hr.KeyContext) -> None:
        ctx.emit(name=timer.name)


ORDERS = st.lists(
    st.tuples(
        st.integers(0, 20), st.sampled_from("ab"), st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 12))
    ),
    max_size=30,
)


@given(ORDERS)
def test_timers_agree_with_a_sorted_list(orders: list[tuple[int, str, str, int | None]]) -> None:
    app = hr.App()
    app.stream("orders", "k STRING KEY, name STRING, delay BIGINT").operate(Timing).to_stream("fired")
    stores: dict[str, dict[Any, Any]] = {}
    chain = Chain(app.catalog.queries["CSAS_FIRED_0"], Context(lambda name: stores.setdefault(name, {})))
    out = chain.feed("orders", [(at, (key,), (name, delay)) for at, key, name, delay in orders]) + chain.tick(1_000)
    assert [(at, key[0], row[0]) for at, key, row in out] == _plainly(orders)
    assert not stores["operate-0/armed"]
    assert chain.deadline() is None


def _plainly(orders: list[tuple[int, str, str, int | None]]) -> list[tuple[int, str, str]]:
    timers: dict[tuple[str, str], tuple[int, int]] = {}
    fired: list[tuple[int, str, str]] = []

    def fire(now: int) -> None:
        for (at, _), key in sorted((place, key) for key, place in timers.items() if place[0] <= now):
            fired.append((at, *key))
            del timers[key]

    now = -1
    for number, (at, key, name, delay) in enumerate(orders):
        now = max(now, at)
        fire(now)
        timers.pop((key, name), None)
        if delay is not None:
            timers[key, name] = (at + delay, number)
        fire(now)
    fire(1_000)
    return fired


def test_a_postponed_timer_is_stored_once() -> None:
    with hr.testing.run(app_of()) as trial:
        for at in range(100):
            click(trial, at)
        due = trial.world.running["CSAS_VISITS_0"].stores["operate-0/due"]
        assert sum(len(page) for place, page in due.items() if place) <= 2


def fed(query: Query, batches: list[list[Any]]) -> list[Any]:
    """A new chain for each batch, over the same stores, as after a restart."""
    stores: dict[str, dict[Any, Any]] = {}
    problems: list[Any] = []
    out: list[Any] = []
    context = Context(lambda name: stores.setdefault(name, {}), problems.append)
    for batch in batches:
        out += Chain(query, context).feed("clicks", batch)
    return [out, Chain(query, context).tick(1_000_000), [p.code for p in problems]]
