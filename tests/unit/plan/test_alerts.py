"""Rules of alerts in memory, by stream time: what is raised and cleared, when, and with which id."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.plan.alerts import TOPIC, Alert, AlertRule, ConditionTest
from headrace.plan.analysis.state_shape import state_shape, user_code_versions
from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import Query
from headrace.plan.steps import Context

READINGS = "CREATE STREAM readings (device STRING KEY, site STRING, t DOUBLE) WITH (kafka_topic='r', format='JSON');"
HOUR, DAY = 3_600, 86_400


def alert(rule: str, *, before: str = READINGS, source: str = "readings") -> str:
    return f"{before} CREATE ALERT hot ON {source} {rule};"


def notices(trial: hr.testing.Trial) -> list[dict[str, Any]]:
    found = trial.world.topics[TOPIC]
    return [{"TARGET": (one.key or b"").decode(), **json.loads(one.value or b"{}")} for one in found]


def said(trial: hr.testing.Trial) -> list[tuple[str, str, float]]:
    return [(one["TARGET"], one["STATE"], one["AT"] / 1000) for one in notices(trial)]


def read(trial: hr.testing.Trial, at: float, t: float | None, device: str = "a", site: str = "x") -> None:
    trial.send("readings", [{"device": device, "site": site, "t": t}], at=int(at * 1000))


def test_an_alert_is_raised_once_and_cleared_once() -> None:
    with hr.testing.run(alert("WHEN t > 30 SEVERITY 'critical' MESSAGE 'it is ' + CAST(t AS STRING)")) as trial:
        for at, t in enumerate([20.0, 31.0, 35.0, None, 31.0]):
            read(trial, at, t)
        assert said(trial) == [("a", "raised", 1), ("a", "cleared", 3), ("a", "raised", 4)]
        first, second, third = notices(trial)
    assert (first["ALERT"], first["SEVERITY"], first["VALUE"], first["SINCE"]) == ("HOT", "critical", 31.0, 1000)
    assert (first["MESSAGE"], second["MESSAGE"]) == ("it is 31.0", "it is 31.0")
    assert (second["VALUE"], second["SINCE"]) == (None, 1000)
    assert len({one["ID"] for one in (first, second, third)}) == 3


def test_a_condition_must_hold_for_its_duration() -> None:
    with hr.testing.run(alert("WHEN t > 30 FOR 5 SECONDS")) as trial:
        read(trial, 0, 31.0)
        read(trial, 4, 20.0)  # too soon over
        read(trial, 10, 32.0)
        read(trial, 14, 33.0)
        assert said(trial) == []
        trial.advance(seconds=15)  # no record is needed
        assert said(trial) == [("a", "raised", 15)]
        assert (notices(trial)[0]["VALUE"], notices(trial)[0]["SINCE"]) == (32.0, 10_000)


def test_an_event_alert_is_raised_for_each_row() -> None:
    with hr.testing.run(alert("WHEN t > 30 EACH ROW")) as trial:
        for at, t in enumerate([31.0, 31.0, 20.0, 40.0]):
            read(trial, at, t)
        assert said(trial) == [("a", "event", 0), ("a", "event", 1), ("a", "event", 3)]
        assert len({one["ID"] for one in notices(trial)}) == 3


def test_an_alert_is_raised_per_column_or_for_all_rows() -> None:
    statements = alert("WHEN t > 30 PER site") + "CREATE ALERT any ON readings WHEN t > 30 PER 'all';"
    with hr.testing.run(statements) as trial:
        read(trial, 0, 31.0, "a", "x")
        read(trial, 1, 31.0, "b", "x")
        read(trial, 2, 31.0, "b", "y")
        assert [(one["ALERT"], one["TARGET"]) for one in notices(trial)] == [("HOT", "x"), ("ANY", "all"), ("HOT", "y")]


def test_a_stream_without_a_key_has_one_alert() -> None:
    bare = "CREATE STREAM readings (t DOUBLE) WITH (kafka_topic='r', value_format='JSON');"
    with hr.testing.run(alert("WHEN t > 30", before=bare)) as trial:
        trial.send("readings", [{"t": 31.0}, {"t": 31.0}, {"t": 1.0}])
        assert [one[:2] for one in said(trial)] == [("", "raised"), ("", "cleared")]


def test_deleting_a_table_row_clears_its_alert() -> None:
    users = "CREATE TABLE users (id STRING PRIMARY KEY, n INT) WITH (kafka_topic='u', format='JSON');"
    with hr.testing.run(alert("WHEN n >= 3", before=users, source="users")) as trial:
        for n in (1, 3, 4):
            trial.send("users", [{"id": "ann", "n": n}])
        trial.delete("users", id="ann")
        trial.delete("users", id="bob")
        assert [one[:2] for one in said(trial)] == [("ann", "raised"), ("ann", "cleared")]
        assert trial.problems == []


def null(trial: hr.testing.Trial, at: float, device: str = "a") -> None:
    """A record of a stream without a value."""
    source = trial.world.catalog.sources["READINGS"]
    trial._produce(source, (int(at * 1000), (device,), None))


def test_a_null_value_of_a_stream_does_not_clear_an_alert() -> None:
    with hr.testing.run(alert("WHEN t > 30 FOR 5 SECONDS") + "CREATE ALERT hotter ON readings WHEN t > 40;") as trial:
        read(trial, 0, 41.0)
        null(trial, 1)
        read(trial, 6, 41.0)
        assert said(trial) == [("a", "raised", 0), ("a", "raised", 5)]


def test_a_null_value_of_a_stream_ends_an_absence() -> None:
    with hr.testing.run(alert("WHEN ABSENT FOR 10 SECONDS")) as trial:
        read(trial, 0, 1.0)
        null(trial, 8)
        trial.advance(seconds=18)
        null(trial, 20)
        trial.advance(seconds=12)
        assert said(trial) == [("a", "raised", 18), ("a", "cleared", 20), ("a", "raised", 30)]
        assert len({one["ID"] for one in notices(trial)}) == 3


def test_a_growing_session_stays_raised() -> None:
    counts = (
        READINGS + "CREATE TABLE visits AS SELECT device, COUNT(*) AS n FROM readings "
        "WINDOW SESSION (10 SECONDS) GROUP BY device;"
    )
    with hr.testing.run(alert("WHEN n > 1", before=counts, source="visits")) as trial:
        for at in (1, 2, 3, 4, 30):
            read(trial, at, 1.0)
        assert said(trial) == [("a", "raised", 2), ("a", "cleared", 30)]


def test_a_windowed_table_has_an_alert_per_key() -> None:
    counts = (
        READINGS + "CREATE TABLE counts AS SELECT device, COUNT(*) AS n FROM readings "
        "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY device EMIT FINAL;"
    )
    with hr.testing.run(alert("WHEN n > 1 MESSAGE WINDOWSTART", before=counts, source="counts")) as trial:
        for at in (1, 2, 11, 21, 22, 31):
            read(trial, at, 1.0)
        assert [one[:2] for one in said(trial)] == [("a", "raised"), ("a", "cleared"), ("a", "raised")]
        assert [one["MESSAGE"] for one in notices(trial)] == ["0", "0", "20000"]


def test_absence_is_raised_by_time_and_cleared_by_a_record() -> None:
    with hr.testing.run(alert("WHEN ABSENT FOR 10 SECONDS MESSAGE 'last seen in ' + site")) as trial:
        read(trial, 0, 1.0)
        read(trial, 8, 1.0)
        read(trial, 5, 1.0)  # late: the latest counts
        trial.advance(seconds=17)
        assert said(trial) == []
        trial.advance(seconds=1)
        assert said(trial) == [("a", "raised", 18)]
        read(trial, 30, 1.0, site="y")
        assert said(trial)[1:] == [("a", "cleared", 30)]
        read(trial, 41, 1.0, "b")  # time goes on with any key
        assert said(trial)[2:] == [("a", "raised", 40)]
        assert [one["MESSAGE"] for one in notices(trial)] == ["last seen in x", "last seen in x", "last seen in y"]


def test_a_late_row_does_not_clear_an_absence() -> None:
    with hr.testing.run(alert("WHEN ABSENT FOR 10 SECONDS")) as trial:
        read(trial, 0, 1.0)
        read(trial, 30, 1.0, "b")
        read(trial, 15, 1.0)
        assert said(trial) == [("a", "raised", 10)]
        read(trial, 25, 1.0)  # late, and yet not absent for ten seconds
        assert said(trial)[1:] == [("a", "cleared", 25)]
        read(trial, 36, 1.0, "b")
        assert said(trial)[2:] == [("a", "raised", 35)]


@pytest.mark.parametrize("rule", ["CHANGE(t) > 10 WITHIN 1 HOUR", "t DEVIATES BY 3 FROM SAME HOUR"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), None])
def test_values_that_are_not_numbers_are_ignored(rule: str, bad: float | None) -> None:
    with hr.testing.run(alert(f"WHEN {rule}")) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    days = [(day * DAY * 1000, ("a",), ("x", 100.0 + day % 2)) for day in range(6)]
    rows = [*days, (5 * DAY * 1000 + 1, ("a",), ("x", bad)), (6 * DAY * 1000, ("a",), ("x", 100.0))]
    rows.append((6 * DAY * 1000 + 1, ("a",), ("x", 900.0)))
    assert [(row[3], time) for time, _, row in fed(query, [rows], 0)] == [("raised", 6 * DAY * 1000 + 1)]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ("CHANGE(t) < -50 PERCENT WITHIN 1 HOUR", [100, 60, 49, 10, 5], [2]),
        ("CHANGE(t) > 10 WITHIN 1 HOUR", [1, 5, 12, 12], [2]),
        ("CHANGE(t) >= 100 PERCENT WITHIN 1 HOUR", [0, 5, 9, 10], [3]),
        ("CHANGE(t) < -5 WITHIN 10 MINUTES", [10, 9, 8, 7, 6, 0.5], [5]),
    ],
)
def test_a_change_is_compared_with_the_values_of_its_period(
    rule: str, values: list[float], expected: list[int]
) -> None:
    with hr.testing.run(alert(f"WHEN {rule}")) as trial:
        for at, t in enumerate(values):
            read(trial, 600 * at, float(t))
        raised = [one["AT"] // 600_000 for one in notices(trial) if one["STATE"] == "raised"]
        assert raised == expected


def test_a_change_ignores_values_before_its_period() -> None:
    with hr.testing.run(alert("WHEN CHANGE(t) < -50 PERCENT WITHIN 1 HOUR")) as trial:
        read(trial, 0, 100.0)
        read(trial, 2 * HOUR, 10.0)
        assert said(trial) == []


def test_a_deviation_needs_enough_values_of_the_hour() -> None:
    with hr.testing.run(alert("WHEN t DEVIATES BY 3 FROM SAME HOUR")) as trial:
        for day in range(4):
            read(trial, day * DAY, 100.0 + day)
        read(trial, 4 * DAY, 900.0)
        assert said(trial) == []
        read(trial, 5 * DAY, 101.0)
        read(trial, 5 * DAY + HOUR, 900.0)  # another hour, of which nothing is known
        assert said(trial) == []
        read(trial, 6 * DAY, 900.0)
        read(trial, 7 * DAY, 102.0)
        assert said(trial) == [("a", "raised", 6 * DAY), ("a", "cleared", 7 * DAY)]


def test_alert_operators_have_no_code_version_and_are_part_of_the_plan() -> None:
    with hr.testing.run(alert("WHEN t > 30 FOR 5 SECONDS")) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    assert user_code_versions(query) == {}
    assert "raised when it holds for 5s" in state_shape(query)["operate-0"]
    assert query.alert is not None
    assert query.alert.rule != AlertRule(ConditionTest())
    assert isinstance(query.alert, Alert)


# -- against a plain oracle -----------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.sampled_from([20.0, 31.0, None])), max_size=25
)


def expected(events: list[tuple[int, str, float | None]], lasting: int, end: int) -> list[tuple[str, str, int]]:
    """Second by second and row by row, without timers: who has held for long enough is raised at that second."""
    out: list[tuple[str, str, int]] = []
    since: dict[str, int] = {}
    raised: set[str] = set()

    def due(now: int) -> None:
        ripe = [(since[key] + lasting, number, key) for number, key in enumerate(since) if key not in raised]
        for at, _, key in sorted(ripe):
            if at <= now:
                raised.add(key)
                out.append((key, "raised", at))

    now = -1
    for at, key, value in events:
        now = max(now, at)
        due(now)
        if value is not None and value > 30:
            since.setdefault(key, at)
            due(now)
        else:
            since.pop(key, None)
            if key in raised:
                raised.remove(key)
                out.append((key, "cleared", at))
    due(end)
    return out


@given(EVENTS, st.integers(0, 6), st.lists(st.integers(0, 25), max_size=4))
def test_raised_and_cleared_alerts_agree_with_a_model_in_any_batches(
    events: list[tuple[int, str, float | None]], lasting: int, cuts: list[int]
) -> None:
    rule = f"WHEN t > 30 FOR {lasting} SECONDS" if lasting else "WHEN t > 30"
    with hr.testing.run(alert(rule)) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    rows = [(at * 1000, (key,), ("x", value)) for at, key, value in events]
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(rows)), len(rows)]
    out = fed(query, [rows[a:b] for a, b in pairwise(bounds)], 60_000)
    assert [(key[0], row[3], time // 1000) for time, key, row in out] == expected(events, lasting, 60)
    assert len({row[0] for _, _, row in out}) == len(out)
    assert fed(query, [rows], 60_000) == out  # the same ids


# -- what is remembered ---------------------------------------------------------------------------------------------

RULES = [
    "t > 30",
    "t > 30 FOR 5 SECONDS",
    "t > 30 EACH ROW",
    "CHANGE(t) > 5 WITHIN 10 SECONDS",
    "CHANGE(t) > 5 WITHIN 10 SECONDS EACH ROW",
    "t DEVIATES BY 3 FROM SAME HOUR",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_key_without_recent_rows_is_removed_from_the_state(rule: str) -> None:
    with hr.testing.run(alert(f"WHEN {rule}")) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    rows = [(at * 1000, (f"k{at}",), ("x", t)) for at in range(20) for t in (20.0, 31.0, 20.0)]
    stores: dict[str, dict[Any, Any]] = {}
    fed(query, [rows], 30 * DAY * 1000, stores)
    assert (stores["operate-0/states"], stores["operate-0/armed"]) == ({}, {})


@pytest.mark.parametrize(("rule", "count"), [("t > 30", 10), ("t > 30 FOR 0 SECONDS", 10), ("t > 30 EACH ROW", 5)])
def test_a_removed_key_gets_new_ids(rule: str, count: int) -> None:
    """It comes and goes twice within a millisecond, again hours later, and then late, with a time that was there."""
    with hr.testing.run(alert(f"WHEN {rule}")) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    times = (0, 0, 3 * HOUR * 1000, 0, 0)
    rows = [(at, ("a",), ("x", value)) for at in times for value in (31.0, 20.0)]
    ids = [row[0] for _, _, row in fed(query, [rows], DAY * 1000)]
    assert (len(ids), len(set(ids))) == (count, count)


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.sampled_from("ab"), st.sampled_from([20.0, 31.0, None])), max_size=40),
    st.sampled_from([*RULES, "ABSENT FOR 1 SECOND"]),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_ids_are_unique_for_any_late_rows_in_any_batches(
    events: list[tuple[int, str, float | None]], rule: str, cuts: list[int]
) -> None:
    """Times are few and hours lie between some of them, so that keys are forgotten and come again at the same time."""
    with hr.testing.run(alert(f"WHEN {rule}")) as trial:
        query = trial.world.catalog.queries["ALERT_HOT_0"]
    rows = [(at // 1000 * 1_800_000 + at % 3, (key,), ("x", value)) for at, key, value in events]
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(rows)), len(rows)]
    out = fed(query, [rows[a:b] for a, b in pairwise(bounds)], 3 * DAY * 1000)
    assert len({row[0] for _, _, row in out}) == len(out)
    assert fed(query, [rows], 3 * DAY * 1000) == out


def fed(query: Query, batches: list[list[Any]], end: int, stores: dict[str, dict[Any, Any]] | None = None) -> list[Any]:
    stores = {} if stores is None else stores
    out: list[Any] = []
    for batch in batches:
        out += Chain(query, Context(store=lambda name: stores.setdefault(name, {}))).feed("r", batch)
    return out + Chain(query, Context(store=lambda name: stores.setdefault(name, {}))).tick(end)
