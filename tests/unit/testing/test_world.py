from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.errors import AssertFailed, QueryFailed
from headrace.plan.actions import CreateSource, DropSource, ExpectRecord, ExpectSource, InsertRow
from headrace.plan.relations import Kind, Relation
from headrace.testing.json_payloads import read_json
from headrace.testing.world import World
from tests.unit.testing.hand_built_plans import ROW, above, info

A = info("A", "a")


def world(*creates: CreateSource, live: bool = True) -> World:
    made = World(live=live)
    made.apply(CreateSource(A))
    for create in creates:
        made.catalog.sources[create.source.name] = create.source
        made.apply(create)
    return made


def give(to: World, value: int, key: int = 1, **more: Any) -> None:
    to.produce("a", key.to_bytes(4), b'{"V": %d}' % value, **more)


def values(of: World, topic: str) -> list[int]:
    return [read_json(entry.value or b"")["V"] for entry in of.topics[topic]]


def test_a_live_world_passes_a_record_through_all_queries_at_once() -> None:
    w = world(above("B", A, 0), above("C", info("B"), 10))
    for value in (5, 15, -1):
        give(w, value)
    assert (values(w, "B"), values(w, "C")) == ([5, 15], [15])


def test_a_query_reads_records_that_are_written_after_its_creation() -> None:
    w = world()
    give(w, 1)
    w.apply(above("B", A, 0))
    give(w, 2)
    assert values(w, "B") == [2]


def test_in_a_world_that_is_not_live_queries_run_one_after_another() -> None:
    w = world(above("C", info("B"), 10), above("B", A, 0), above("D", info("B"), 10), live=False)
    give(w, 15)
    assert values(w, "B") == []
    w.drain()
    # C ran before anything was in B.
    assert (values(w, "B"), values(w, "C"), values(w, "D")) == ([15], [], [15])


def test_a_topic_with_given_inputs_gets_no_other_records() -> None:
    w = world(above("B", A, 0), above("C", info("B"), 0), live=False)
    give(w, 1)
    w.produce("B", bytes(4), b'{"V": 7}')
    w.drain()
    assert values(w, "C") == [7]


def test_outputs_have_the_headers_and_time_of_their_input_record() -> None:
    w = world(above("B", A, 0))
    give(w, 1, timestamp=9, headers=(("h", b"x"),))
    (entry,) = w.topics["B"]
    assert (entry.timestamp, entry.headers, entry.origin) == (9, (("h", b"x"),), "CSAS_B")


def test_a_replaced_query_stops() -> None:
    w = world(above("B", A, 0))
    w.apply(above("B", A, 10, query="CSAS_B_2", replaces="CSAS_B"))
    give(w, 5)
    give(w, 15)
    assert values(w, "B") == [15]


def test_dropping_a_source_deletes_its_topic_if_requested() -> None:
    w = world(above("B", A, 0))
    w.apply(DropSource(info("B"), delete_topic=True, queries=("CSAS_B",)))
    give(w, 5)
    assert w.topics["B"] == []


def test_an_inserted_row_is_encoded_in_the_format_of_its_source() -> None:
    w = world(above("B", A, 0))
    w.apply(InsertRow(A, (3,), (4,), timestamp=8))
    (entry,) = w.topics["B"]
    assert (entry.key, read_json(entry.value or b""), entry.timestamp) == (b"\0\0\0\3", {"V": 4}, 8)


def test_an_invalid_record_is_reported_or_fails_the_query() -> None:
    lenient = above("B", A, 0)
    w = world(lenient)
    w.produce("a", bytes(4), b"{")
    assert ([problem.code for problem in w.problems], values(w, "B")) == (["bad-record"], [])
    assert lenient.query is not None
    strict = replace(lenient, query=replace(lenient.query, strict=(("bad-record", "some.setting"),)))
    with pytest.raises(QueryFailed, match=r"set some\.setting to false") as failed:
        world(strict).produce("a", bytes(4), b"{")
    assert failed.value.where == "topic a, partition 0, offset 0"


# -- asserts --------------------------------------------------------------------------------------------------------


def test_an_assert_takes_the_next_record() -> None:
    w = world()
    w.apply(InsertRow(A, (1,), (4,), timestamp=8))
    w.apply(InsertRow(A, (1,), None))
    w.apply(InsertRow(A, (2,), (5,)))
    w.apply(ExpectRecord(A, ("ID", "V", "ROWTIME"), (1, 4, 8)))
    w.apply(ExpectRecord(A, ("ID",), (1,), null=True))
    w.apply(ExpectRecord(A, ("V",), (5,)))
    with pytest.raises(AssertFailed, match="no more records"):
        w.apply(ExpectRecord(A, ("ID", "V"), (1, 4)))


@pytest.mark.parametrize(
    ("columns", "expected", "null", "message"),
    [
        (("ID", "V"), (1, 5), False, "V: expected 5, got 4"),
        (("ID", "V", "ROWTIME"), (1, 4, 9), False, "ROWTIME: expected 9, got 8"),
        (("ID",), (1,), True, "expected a deletion"),
    ],
    ids=["value", "time", "deletion"],
)
def test_a_failed_assert_raises_an_error(columns: Any, expected: Any, null: bool, message: str) -> None:
    w = world()
    w.apply(InsertRow(A, (1,), (4,), timestamp=8))
    with pytest.raises(AssertFailed, match=message):
        w.apply(ExpectRecord(A, columns, expected, null))


def test_a_source_can_be_asserted() -> None:
    w = world(above("B", A, 0))
    table = Relation(Kind.TABLE, ROW.key, ROW.value)
    w.apply(ExpectSource("B", info("B", "other"), {}))
    with pytest.raises(AssertFailed, match="topic"):
        w.apply(ExpectSource("B", info("B", "other"), {"KAFKA_TOPIC": "other"}))
    with pytest.raises(AssertFailed, match="type"):
        w.apply(ExpectSource("B", info("B", relation=table), {}))
    with pytest.raises(AssertFailed, match="stream or table Z does not exist"):
        w.apply(ExpectSource("Z", info("Z"), {}))


def test_a_resumed_query_processes_the_records_that_arrived_meanwhile() -> None:
    world = World()
    world.execute(
        "CREATE STREAM a (id INT KEY, v INT) WITH (KAFKA_TOPIC='a', FORMAT='JSON');"
        "CREATE STREAM b WITH (QUERY_ID='copying') AS SELECT * FROM a;"
        "INSERT INTO a VALUES (1, 1); PAUSE copying; INSERT INTO a VALUES (2, 2);"
    )
    assert len(world.topics["B"]) == 1
    world.execute("RESUME copying; INSERT INTO a VALUES (3, 3);")
    assert [entry.key for entry in world.topics["B"]] == [b"1", b"2", b"3"]
    world.execute("TERMINATE copying; INSERT INTO a VALUES (4, 4);")
    assert len(world.topics["B"]) == 3
