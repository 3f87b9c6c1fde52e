"""Conditions as filters of the log: which rows match, which conditions are refused, and that columns of a schema, JSON
values and Python agree.
"""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.clock import ManualClock
from headrace.contracts import HEADERS_TYPE, SYSTEM_COLUMNS, Batch, Topic, TopicSpec
from headrace.errors import BadFilter
from headrace.lang.registry import dialect_of
from headrace.lang.topic_conditions import TopicCondition
from headrace.plan.catalog import Catalog
from headrace.schema import RAW, Schema

TYPED = Schema.parse(
    "id bigint key, name string, amount double, price decimal(10,2), city string, ok boolean, at timestamp, day date, "
    "place struct<lat double,tags array<string>>, marks map<string,int>, data bytes, small float, days array<date>"
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "name": "Ada", "amount": 150.0, "price": Decimal("0.10"), "city": "Rome", "ok": True,
        "at": 1704067200000, "day": 19753, "place": {"lat": 2.0, "tags": ["x"]}, "marks": [("m", 3)],
        "data": b"raw", "small": 0.5,
    },
    {"id": 2, "name": "Anna", "amount": 1.0, "price": Decimal("7"), "city": "Oslo", "ok": False, "at": 4},
    {"id": 3, "name": "Bo"},
]  # fmt: skip


def batch(schema: Schema, rows: list[dict[str, Any]], *, partition: int = 0, first: int = 10, **system: Any) -> Batch:
    """Rows of the topic `t`, as the log returns them."""
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema.arrow]
    given = {"offset": range(first, first + len(rows)), "timestamp": range(len(rows)), **system}
    nothing = [None] * len(rows)
    own = [pa.array(given.get(name[1:], nothing), kind) for name, kind in SYSTEM_COLUMNS.items()]
    names = [*schema.names, *SYSTEM_COLUMNS]
    return Batch("t", partition, pa.RecordBatch.from_arrays([*columns, *own], names), first + len(rows))


def raw(*values: bytes | None, keys: list[bytes | None] | None = None, **more: Any) -> Batch:
    every = zip(keys or [None] * len(values), values, strict=True)
    return batch(RAW, [{"key": key, "value": value} for key, value in every], **more)


def condition(text: str, schema: Schema = TYPED, **more: Any) -> TopicCondition:
    topic = Topic("t", TopicSpec(schema=schema), 0)
    return TopicCondition(text, {"t": topic}.__getitem__, clock=ManualClock(5), **more)


def matched(text: str, rows: Batch, **more: Any) -> list[int]:
    mask = condition(text, RAW if rows.rows.schema.names[:2] == ["key", "value"] else TYPED, **more)(rows)
    assert pa.types.is_boolean(mask.type)
    assert (len(mask), mask.null_count) == (len(rows), 0)
    return [i for i, hit in enumerate(mask.to_pylist()) if hit]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("amount > 100", [0]),
        ("AMOUNT > 100", [0]),
        ("id = 1 OR amount = 1", [0, 1]),
        ("name LIKE 'A%'", [0, 1]),
        ("name LIKE 'A_a'", [0]),
        ("name NOT LIKE 'A%'", [2]),
        ("UCASE(name) = 'BO'", [2]),
        ("city IN ('Rome', 'Oslo')", [0, 1]),
        ("amount IS NULL", [2]),
        ("price = 0.1", [0]),
        ("at >= '2024-01-01T00:00:00'", [0]),
        ("day = '2024-01-31'", [0]),
        ("place->`lat` > 1", [0]),
        ("place->`tags`[1] = 'x'", [0]),
        ("marks['m'] = 3", [0]),
        ("small = 0.5", [0]),
        ("ok AND amount > 100", [0]),
        ("ok OR amount IS NULL", [0, 2]),
        ("NOT (ok OR amount > 1000)", [1, 2]),
        ("id / (id - 1) > 0", [1, 2]),
        ("FROM_BYTES(data, 'utf8') = 'raw'", [0]),
        ("ROWOFFSET IN (11, 12)", [1, 2]),
        ("ROWTIME >= 1 AND ROWPARTITION = 3", [1, 2]),
        ("ROWPARTITION = 4", []),
        ("ROWTIME < UNIX_TIMESTAMP()", [0, 1, 2]),
        ("true", [0, 1, 2]),
    ],
)
def test_conditions_select_rows_of_topics_with_a_schema(text: str, hits: list[int]) -> None:
    assert matched(text, batch(TYPED, ROWS, partition=3)) == hits


def test_headers_are_a_column_of_every_topic() -> None:
    headers = pa.array([[{"name": "type", "value": b"order"}], None], HEADERS_TYPE)
    text = "ARRAY_CONTAINS(TRANSFORM(headers, h => h->`KEY`), 'type')"
    assert matched(text, batch(TYPED, ROWS[:2], headers=headers)) == [0]
    assert matched(text, raw(b"", b"", headers=headers)) == [0]


def test_a_deleted_row_has_only_its_key() -> None:
    rows = batch(TYPED, ROWS, deleted=[None, True, None])
    assert matched("id = 2", rows) == [1]
    assert matched("name IS NULL", rows) == [1]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("key = 'a'", [0]),
        ("key <> 'a'", [1, 3]),
        ("value = 'plain text'", [2]),
        ("value LIKE 'plain%'", [2]),
        ("value IS NULL", [3]),
        ("EXTRACTJSONFIELD(value, '$.amount') = '200'", [0]),
        ("CAST(EXTRACTJSONFIELD(value, '$.amount') AS DOUBLE) > 100", [0, 1]),
        ("EXTRACTJSONFIELD(value, '$.items[0].name') = 'x'", [0]),
        ("ROWOFFSET >= 12", [2, 3, 4]),
    ],
)
def test_keys_and_values_of_raw_topics_are_text(text: str, hits: list[int]) -> None:
    values = [b'{"amount": 200, "items": [{"name": "x"}]}', b'{"amount": 150.5}', b"plain text", None, b"\xff"]
    assert matched(text, raw(*values, keys=[b"a", b"b", None, b"c", None])) == hits


def test_listed_columns_are_fields_of_json_values() -> None:
    values = [b'{"amount": 200, "City": "Rome"}', b'{"amount": 7}', b"no JSON", None]
    columns = Schema.parse("amount double, city string")
    found = [matched(text, raw(*values, keys=[b"k", b"l", b"m", None]), columns=columns)
             for text in ("amount > 10", "city IS NULL", "key = 'k'", "key = 'l' OR city = 'Rome'")]  # fmt: skip
    assert found == [[0], [1, 3], [0], [0, 1]]


def _catalog() -> Catalog:
    catalog = Catalog()
    planner = dialect_of().planner(catalog)
    for text in (
        "CREATE STREAM OTHERS (AMOUNT DOUBLE) WITH (KAFKA_TOPIC='others', FORMAT='JSON');",
        "CREATE STREAM ORDERS (ID BIGINT KEY, AMOUNT DOUBLE, TOLD BIGINT, H BYTES HEADER('h')) "
        "WITH (KAFKA_TOPIC='t', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON', TIMESTAMP='TOLD');",
        "CREATE TABLE CITIES (CITY STRING PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='t', FORMAT='DELIMITED');",
    ):
        planner.plan(dialect_of().parse_one(text))
    return catalog


def test_raw_topics_have_the_columns_of_the_stream_or_table_over_them() -> None:
    values = [b'{"amount": 200, "told": 7}', b'{"amount": 1, "told": 9}']
    rows = raw(*values, keys=[(1).to_bytes(8, "big"), (2).to_bytes(8, "big")])
    found = [matched(text, rows, catalog=_catalog)
             for text in ("amount > 10", "id = 2", "ROWTIME = 9", "value LIKE '%200%'", "h IS NULL")]  # fmt: skip
    assert found == [[0], [1], [1], [0], [0, 1]]
    assert matched("n > 5", raw(b"9", b"3", keys=[b"Oslo", b"Rome"]), catalog=_catalog) == [0]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "1:1"),
        ("amount >", "1:9"),
        ("amount > 100 city", "1:14"),
        ("(amount > 1", "1:12"),
        ("1 + 1", "1:1"),
        ("amount", "1:1"),
        ("amont > 1", "1:1"),
        ("id = 1 AND\nplace->lon = 1", "2:1"),
        ("amount > 1; DROP STREAM x", "1:11"),
        ("name IN ()", "1:10"),
        ("name IS 5", "1:9"),
        ("name = 'open", "1:8"),
        ("COUNT(*) > 1", "1:1"),
        ("NO_SUCH(name) > 1", "1:1"),
        ("id = 'x'", None),
        ("days[1] = '2024-01-31'", "1:1"),
        ("x" * 100_000, None),
    ],
)
def test_an_invalid_condition_is_refused_with_its_place_and_a_fix(text: str, where: str | None) -> None:
    with pytest.raises(BadFilter) as refused:
        condition(text).check("t")
    assert refused.value.fix
    assert where is None or refused.value.where == f"line {where}"


def test_an_unknown_column_of_a_raw_topic_suggests_to_list_columns() -> None:
    with pytest.raises(BadFilter, match="CITY") as refused:
        condition("city = 'Rome'", RAW).check("t")
    assert "--columns" in (refused.value.fix or "")


def test_columns_cannot_be_listed_for_a_topic_with_a_schema() -> None:
    with pytest.raises(BadFilter, match="has a schema"):
        condition("amount > 1", columns=Schema.parse("amount double")).check("t")


def test_a_pattern_does_not_backtrack() -> None:
    assert matched(f"value LIKE '{'%a' * 30}%b'", raw(b"a" * 20_000)) == []


# -- the predicate equals plain evaluation ----------------------------------------------------------------------------

Evaluate = Callable[[dict[str, Any]], Any]
Term = tuple[str, Evaluate]
NUMBERS: list[Term] = [
    ("1", lambda row: 1),
    ("2.5E0", lambda row: 2.5),
    ("count", lambda row: row["count"]),
    ("amount", lambda row: row["amount"]),
]
TEXTS: list[Term] = [("name", lambda row: row["name"]), ("'a'", lambda row: "a"), ("''", lambda row: "")]
SIGNS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _compared(left: Term, sign: str, right: Term) -> Term:
    def holds(row: dict[str, Any]) -> bool:
        a, b = left[1](row), right[1](row)
        return a is not None and b is not None and SIGNS[sign](a, b)

    return f"{left[0]} {sign} {right[0]}", holds


def _joined(left: Term, word: str, right: Term) -> Term:
    join = all if word == "AND" else any
    return f"({left[0]} {word} {right[0]})", lambda row: join((left[1](row), right[1](row)))


def _inverted(of: Term) -> Term:
    return f"NOT ({of[0]})", lambda row: not of[1](row)


def _null(of: Term) -> Term:
    return f"{of[0]} IS NULL", lambda row: of[1](row) is None


SIGN = st.sampled_from(sorted(SIGNS))
NUMBER, TEXT = st.sampled_from(NUMBERS), st.sampled_from(TEXTS)
CONDITIONS = st.recursive(
    st.builds(_compared, NUMBER, SIGN, NUMBER) | st.builds(_compared, TEXT, SIGN, TEXT) | st.builds(_null, NUMBER),
    lambda of: st.builds(_joined, of, st.sampled_from(["AND", "OR"]), of) | st.builds(_inverted, of),
    max_leaves=5,
)
SMALL = Schema.parse("count int, amount double, name string")
SMALL_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.none() | st.integers(-3, 3),
            "amount": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, 2.5]),
            "name": st.none() | st.text("ab", max_size=2),
        }
    ),
    min_size=1,
    max_size=100,
)


@given(CONDITIONS, SMALL_ROWS)
@settings(max_examples=100, deadline=None)
def test_columns_of_a_schema_json_values_and_python_agree(term: Term, rows: list[dict[str, Any]]) -> None:
    text, holds = term
    expected = [holds(row) for row in rows]
    assert condition(text, SMALL)(batch(SMALL, rows)).to_pylist() == expected
    values = [json.dumps(row).encode() for row in rows]
    assert condition(text, RAW, columns=SMALL)(raw(*values)).to_pylist() == expected


@given(st.text(max_size=60) | st.text("abvalue.()[]'\"=<>!andornotinlikeisnull 0123", max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_condition_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadFilter):
        condition(text).check("t")
