"""FROM: which join the kinds of its sides and its condition give, under which key, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadJoin, BadKey, BadWindow, StatementError
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan import nodes
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import JoinKind, Node
from tests.ksql_parsing import parse
from tests.ksql_strategies import SOURCES, planned

KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
MORE = """
CREATE STREAM P (ID INT KEY, A INT) WITH (KAFKA_TOPIC='p', KEY_FORMAT='JSON', VALUE_FORMAT='KAFKA');
CREATE STREAM W (ID INT KEY, A INT)
    WITH (KAFKA_TOPIC='w', FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOUR');
CREATE STREAM D (ID INT KEY, A INT)
    WITH (KAFKA_TOPIC='d', FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 DAY');
CREATE TABLE Q (ID INT PRIMARY KEY) WITH (KAFKA_TOPIC='q', FORMAT='JSON');
CREATE STREAM N (ID INT KEY, A INT) WITH (KAFKA_TOPIC='n', FORMAT='JSON', WINDOW_TYPE='SESSION');
"""


def stream(join: str, select: str = "*") -> nodes.Query:
    return planned(f"CREATE STREAM x AS SELECT {select} FROM {join};")


def table(join: str, select: str = "*") -> nodes.Query:
    return planned(f"CREATE TABLE x AS SELECT {select} FROM {join};")


def names(query: nodes.Query) -> list[str]:
    """The steps below the projection, those of the left side first."""
    return [type(node).__name__ for node in nodes.walk(query.sink)][2:]


def joined(query: nodes.Query) -> Node:
    (join,) = (node for node in nodes.walk(query.sink) if "Join" in type(node).__name__)
    return join


def error_of(statement: str) -> StatementError:
    planner, parsed = Planner(Catalog()), parse(SOURCES + MORE + statement)
    *sources, (last, text) = parsed.statements
    for one, its_text in sources:
        planner.plan(one, its_text)
    with pytest.raises(StatementError) as refused:
        planner.plan(last, text)
    assert refused.value.span is not None
    return refused.value


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_joined_within_a_time_in_every_kind(kind: str) -> None:
    query = stream(f"s {kind} JOIN r WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 5 MINUTES ON s.id = r.id")
    join = joined(query)
    assert isinstance(join, nodes.StreamJoin)
    times = join.before, join.after, join.grace
    assert (join.kind, *times) == (JoinKind(kind.lower()), *(timedelta(minutes=n) for n in (60, 120, 5)))
    assert [field.name for field in query.sink.relation.key] == ["ROWKEY" if kind == "FULL" else "S_ID"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_keeps_its_rows_in_a_join_with_a_table(kind: str) -> None:
    source = f"s {kind} JOIN t ON s.id = t.id"
    if kind in ("INNER", "LEFT"):
        join = joined(stream(source))
        assert isinstance(join, nodes.StreamTableJoin)
        assert join.kind is JoinKind(kind.lower())
    else:
        assert "not supported for stream-table join" in error_of(f"CREATE STREAM x AS SELECT * FROM {source};").what
    assert (
        error_of(f"CREATE STREAM x AS SELECT * FROM t {kind} JOIN s ON s.id = t.id;").fix
        == "put the stream on the left"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_joined_on_their_keys_in_every_kind_and_on_another_column_in_two(kind: str) -> None:
    join = joined(table(f"t {kind} JOIN u ON t.id = u.id"))
    assert isinstance(join, nodes.TableJoin)
    assert join.kind is JoinKind(kind.lower())
    foreign = f"t {kind} JOIN u ON t.v = u.id"
    if kind in ("RIGHT", "FULL"):
        assert "foreign key" in error_of(f"CREATE TABLE x AS SELECT * FROM {foreign};").what
    else:
        query = table(foreign)
        assert isinstance(joined(query), nodes.ForeignKeyJoin)
        assert [field.name for field in query.sink.relation.key] == ["T_ID"]  # each row of the left table stays one row


@pytest.mark.parametrize(
    ("left", "right", "key", "rekeyed"),
    [
        ("s.id", "r.id", "S_ID", []),
        ("s.a", "r.id", "S_A", ["left"]),
        ("s.id", "r.a", "S_ID", ["right"]),
        ("s.a", "r.a", "S_A", ["left", "right"]),
        ("ABS(s.a)", "ABS(r.a)", "ROWKEY", ["left", "right"]),
        ("ABS(s.a)", "r.id", "R_ID", ["left"]),
    ],
)
def test_a_stream_is_rekeyed_if_it_is_not_joined_on_its_key(
    left: str, right: str, key: str, rekeyed: list[str]
) -> None:
    query = stream(f"s JOIN r WITHIN 1 HOUR ON {left} = {right}")
    join = joined(query)
    assert isinstance(join, nodes.StreamJoin)
    sides = {"left": join.left, "right": join.right}
    assert [side for side, node in sides.items() if isinstance(node, nodes.Rekey)] == rekeyed
    assert [field.name for field in query.sink.relation.key] == [key]


JOINS = st.sampled_from(
    [
        ("STREAM", "s {kind} JOIN r WITHIN 1 HOUR ON {one} = {other}", "s.id", "r.id"),
        ("STREAM", "s {kind} JOIN r WITHIN 1 HOUR ON {one} = {other}", "s.a", "ABS(r.a)"),
        ("STREAM", "s {kind} JOIN t ON {one} = {other}", "s.a + 1", "t.id"),
        ("TABLE", "t {kind} JOIN u ON {one} = {other}", "t.v", "u.id"),
    ]
)


@given(join=JOINS, kind=st.sampled_from(["INNER", "LEFT"]))
def test_the_sides_of_a_condition_may_be_in_either_order(join: tuple[str, str, str, str], kind: str) -> None:
    result, source, one, other = join
    first, second = (
        planned(f"CREATE {result} x AS SELECT * FROM {source.format(kind=kind, one=left, other=right)};")
        for left, right in ((one, other), (other, one))
    )
    assert first.sink == second.sink


def test_a_join_of_three_sources_joins_from_the_left() -> None:
    query = stream("s JOIN r WITHIN 1 HOUR ON s.id = r.id LEFT JOIN t ON r.a = t.id", "r.a, s.b, x, w")
    side = ["Select", "Source"]
    assert names(query) == ["StreamTableJoin", "Rekey", "StreamJoin", *side, *side, *side]
    assert [field.name for field in query.sink.relation.value] == ["B", "X", "W"]


def test_a_key_that_no_source_has_must_be_selected_by_its_name() -> None:
    source = "s FULL JOIN r WITHIN 1 HOUR ON s.id = r.id"
    assert [field.name for field in stream(source, "ROWKEY AS k, x").sink.relation.key] == ["K"]
    error = error_of(f"CREATE STREAM x AS SELECT s.id, x FROM {source};")
    assert isinstance(error, BadKey)
    assert error.fix == "add ROWKEY to SELECT"


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("s JOIN r WITHIN 1 HOUR ON s.id = s.a", BadJoin, "exactly one source and not the same"),
        ("s JOIN r WITHIN 1 HOUR ON s.id = 1", BadJoin, "exactly one source"),
        ("s JOIN r WITHIN 1 HOUR ON s.id = s.a + r.a", BadJoin, "exactly one source"),
        ("s JOIN r WITHIN 1 HOUR ON s.id = r.id AND s.a = r.a", BadJoin, "multiple conditions"),
        ("s JOIN s s2 WITHIN 1 HOUR ON s.id = s2.id", BadJoin, "self joins"),
        ("s q JOIN r q WITHIN 1 HOUR ON q.id = q.id", BadJoin, "'Q' names two sources"),
        ("s JOIN p WITHIN 1 HOUR ON s.id = p.id", BadJoin, "'KAFKA' value format"),
        ("s JOIN t ON s.id = t.v", BadJoin, "the table's primary key"),
        ("s JOIN w WITHIN 1 HOUR ON s.id = w.id", BadWindow, "windowed source to non-windowed"),
        ("w JOIN n WITHIN 1 HOUR ON w.id = n.id", BadWindow, "different window types"),
        ("w JOIN d WITHIN 1 HOUR ON w.id = d.id", BadWindow, "repartitioning of windowed"),
    ],
)
def test_a_join_that_cannot_be_is_refused_with_its_place(source: str, error: type[StatementError], said: str) -> None:
    refused = error_of(f"CREATE STREAM x AS SELECT * FROM {source};")
    assert isinstance(refused, error)
    assert said in refused.what


def test_a_join_under_a_foreign_key_is_the_only_one_of_its_query() -> None:
    error = error_of("CREATE TABLE x AS SELECT * FROM t JOIN u ON t.id = u.id JOIN q ON t.v = q.id;")
    assert isinstance(error, BadJoin)
    assert "not supported as part of n-way joins" in error.what
