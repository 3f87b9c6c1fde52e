"""Extensions for time in KSQL: windows, triggers, joins by event time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from headrace.errors import StatementError
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Aggregate, Emit, Final, ProcessingTime, StreamTableJoin, walk
from headrace.plan.relations import WindowKind
from headrace.plan.triggers import After, Every, Panes, PerBatch, PerRecord, Results
from tests.ksql_strategies import planned

COUNT = "CREATE TABLE O AS SELECT ID, COUNT(*) AS N FROM S {} GROUP BY ID {};"
MINUTE = "WINDOW TUMBLING (SIZE 1 MINUTE)"
JOIN = "CREATE STREAM O AS SELECT S.ID, T.V FROM S JOIN T {} ON S.ID = T.ID;"


def first(text: str, kind: type[Any]) -> Any:
    return next((node for node in walk(planned(text).sink) if isinstance(node, kind)), None)


@pytest.mark.parametrize(
    ("clause", "trigger", "results"),
    [
        ("EMIT CHANGES PER BATCH", PerBatch(), Results.ACCUMULATING),
        ("EMIT CHANGES EVERY 10 SECONDS", Every(timedelta(seconds=10)), Results.ACCUMULATING),
        ("EMIT CHANGES AFTER 5 SECONDS RETRACTING", After(timedelta(seconds=5)), Results.RETRACTING),
        ("EMIT CHANGES DISCARDING", PerRecord(), Results.DISCARDING),
        ("EMIT ON TIME", Panes(), Results.ACCUMULATING),
        ("EMIT EARLY AND ON TIME", Panes(PerRecord()), Results.ACCUMULATING),
        (
            "EMIT EARLY EVERY 1 SECOND AND ON TIME AND LATE AFTER 1 MINUTE DISCARDING",
            Panes(Every(timedelta(seconds=1)), After(timedelta(minutes=1))),
            Results.DISCARDING,
        ),
    ],
)
def test_emit_clauses_become_triggers(clause: str, trigger: Any, results: Results) -> None:
    node = first(COUNT.format(MINUTE, clause), Emit)
    assert (node.trigger, node.results) == (trigger, results)
    assert isinstance(node.input, Aggregate)


@pytest.mark.parametrize("clause", ["", "EMIT CHANGES", "EMIT CHANGES ACCUMULATING"])
def test_emit_changes_needs_no_step(clause: str) -> None:
    assert first(COUNT.format(MINUTE, clause), Emit) is None


def test_window_clauses_become_windows() -> None:
    sliding = first(COUNT.format("WINDOW SLIDING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND)", ""), Aggregate)
    assert sliding.relation.window.kind is WindowKind.SLIDING
    sampling = first(COUNT.format("WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 1 HOUR)", ""), Aggregate)
    assert sampling.relation.window.advance == timedelta(hours=1)
    idle = first(COUNT.format("WINDOW SESSION (1 MINUTE, IDLE TIMEOUT 5 MINUTES)", "EMIT FINAL"), Final)
    assert idle.relation.window.idle == timedelta(minutes=5)
    arriving = first(COUNT.format("WINDOW TUMBLING (SIZE 1 MINUTE, PROCESSING TIME)", ""), Aggregate)
    assert isinstance(arriving.input, ProcessingTime)


def test_system_time_plans_a_join_by_event_time() -> None:
    assert first(JOIN.format(""), StreamTableJoin).history is None
    assert first(JOIN.format("FOR SYSTEM_TIME AS OF S.ROWTIME"), StreamTableJoin).history == timedelta(days=1)
    aliased = "FOR SYSTEM_TIME AS OF ROWTIME HISTORY 2 HOURS AS T"
    assert first(JOIN.format(aliased), StreamTableJoin).history == timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE STREAM O AS SELECT * FROM S EMIT CHANGES EVERY 1 SECOND;", "bad-query"),
        (COUNT.format("", "EMIT ON TIME"), "bad-query"),
        (COUNT.format("", "EMIT CHANGES EVERY 0 SECONDS"), "bad-query"),
        (COUNT.format("WINDOW SLIDING (SIZE 1 SECOND)", "EMIT CHANGES DISCARDING"), "bad-query"),
        ("CREATE TABLE O AS SELECT ID, V FROM T EMIT CHANGES DISCARDING;", "bad-query"),
        (COUNT.format("WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 HOUR)", "EMIT ON TIME"), "bad-window"),
        (COUNT.format("WINDOW SLIDING (SIZE 0 SECONDS)", ""), "bad-window"),
        (JOIN.format("FOR SYSTEM_TIME AS OF T.ROWTIME"), "bad-join"),
        (JOIN.format("FOR SYSTEM_TIME AS OF S.A"), "bad-join"),
        ("CREATE STREAM O AS SELECT * FROM S FOR SYSTEM_TIME AS OF ROWTIME;", "bad-join"),
        ("CREATE TABLE O AS SELECT T.ID, U.V FROM T JOIN U FOR SYSTEM_TIME AS OF ROWTIME ON T.ID = U.ID;", "bad-join"),
    ],
)
def test_refusals_have_a_place_and_a_fix(text: str, code: str) -> None:
    with pytest.raises(StatementError) as refused:
        planned(text)
    assert refused.value.code == code
    assert refused.value.span


def test_new_keywords_are_still_valid_names() -> None:
    parse_one("SELECT every, after, early, late, per, batch, history, sliding, idle, processing, of FROM for for;")


def record(key: int, time: int, **columns: Any) -> RawRecord:
    return RawRecord(orjson.dumps(key), orjson.dumps(columns), time)


def test_triggers_determine_the_records_that_are_emitted() -> None:
    pipe = Pipeline(planned(COUNT.format("", "EMIT CHANGES EVERY 10 SECONDS")))
    assert pipe.feed("s", [record(1, 1000), record(2, 2000), record(1, 3000)]) == []
    assert [(r.key, r.value, r.time) for r in pipe.tick(10_000)] == [
        (b"1", b'{"N":2}', 3000),
        (b"2", b'{"N":1}', 2000),
    ]


def test_per_batch_emits_once_for_each_batch() -> None:
    pipe = Pipeline(planned(COUNT.format("", "EMIT CHANGES PER BATCH")))
    assert [r.value for r in pipe.feed("s", [record(1, 1), record(1, 2)])] == [b'{"N":2}']
    assert [r.value for r in pipe.run([("s", record(1, 3)), ("s", record(1, 4))])] == [b'{"N":4}']


def test_a_stream_row_joins_the_table_row_valid_at_its_time() -> None:
    pipe = Pipeline(planned(JOIN.format("FOR SYSTEM_TIME AS OF S.ROWTIME")))
    inputs = [("t", record(1, 10, V=1)), ("t", record(1, 20, V=2)), ("s", record(1, 25)), ("s", record(1, 15))]
    assert [r.value for r in pipe.run(inputs)] == [b'{"V":2}', b'{"V":1}']


def test_a_sliding_window_is_decoded_from_its_start_and_size() -> None:
    pipe = Pipeline(planned(COUNT.format("WINDOW SLIDING (SIZE 10 MILLISECONDS)", "")))
    out = pipe.feed("s", [record(1, 5), record(1, 12)])
    assert [int.from_bytes((r.key or b"")[-8:], signed=True) for r in out] == [-4, 3]
