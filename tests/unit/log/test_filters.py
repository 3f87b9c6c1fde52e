"""Content filters: what matches, what is refused, and that Arrow's way and the value-by-value way agree."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts import HEADERS_TYPE
from headrace.errors import BadFilter
from headrace.log import filters
from headrace.log.filter_parser import parse_filter
from headrace.log.filters import filter_expression, header_filter
from headrace.schema import Schema


def raw(
    *values: bytes | None, keys: list[bytes | None] | None = None, headers: list[Any] | None = None
) -> pa.RecordBatch:
    count = len(values)
    shaped = [[{"name": n, "value": v} for n, v in h] if h is not None else None for h in headers or [None] * count]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys or [None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "$timestamp": pa.array(range(count), pa.int64()),
            "$headers": pa.array(shaped, HEADERS_TYPE),
            "$offset": pa.array(range(10, 10 + count), pa.int64()),
        }
    )


TYPED = Schema.parse(
    "id bigint key, name string, amount double, price decimal(10,2), city string, ok boolean, at timestamp, day date, "
    "where struct<lat double,tags array<string>>, marks map<string,int>, data bytes"
)


def typed(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), TYPED.arrow)


def matched(text: str, rows: pa.RecordBatch) -> list[int]:
    mask = filter_expression(text)(rows)
    assert pa.types.is_boolean(mask.type)
    assert (len(mask), mask.null_count) == (rows.num_rows, 0)
    return [i for i, hit in enumerate(mask.to_pylist()) if hit]


def test_header_match_wants_all_headers_and_the_last_of_a_name() -> None:
    rows = raw(
        b"", b"", b"", b"", b"",
        headers=[
            [("type", b"order"), ("zone", b"eu")],
            [("type", b"order")],
            None,
            [("type", b"bill"), ("type", b"order"), ("zone", b"eu")],
            [("type", b"order"), ("type", b"bill"), ("zone", b"eu")],
        ],
    )  # fmt: skip
    assert header_filter({"type": "order", "zone": b"eu"})(rows).to_pylist() == [True, False, False, True, False]
    assert header_filter({})(rows).to_pylist() == [True] * 5
    assert header_filter({"type": "order"})(rows.slice(3)).to_pylist() == [True, False]
    assert header_filter({"type": "order"})(rows.drop_columns(["$headers"])).to_pylist() == [False] * 5
    assert header_filter({"type": "order"})(rows.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ('value.amount > 100 and headers.type == "order"', [0]),
        ("value.amount > 100", [0, 1]),
        ("value.amount > 100.5 or value.amount < 0", [0, 1]),
        ('key == "a"', [0]),
        ('key <> "a"', [1]),
        ("timestamp >= 2", [2, 3, 4, 5]),
        ("offset = 11 or offset = 12", [1, 2]),
        ("sequence is null", [0, 1, 2, 3, 4, 5]),
        ('value == "plain text"', [2]),
        ('value like "plain%"', [2]),
        ("value.amount is null", [2, 3, 4, 5]),
        ("value.amount is not null", [0, 1]),
        ("not value.amount > 100", []),
        ("value.items[0].name = 'x'", [0]),
        ('value["items"][1]["name"] = "y"', [0]),
        ("value.items[9].name = 'x'", []),
        ("value.amount * 2 - 1 = 399", [0]),
        ("value.amount / 0 > 1", []),
        ("value.amount % 3 = 2", [0]),
        ("-value.amount < -100", [0, 1]),
        ('value.amount = "200"', []),
        ("value.ok", [1]),
        ("value.ok = true", [1]),
        ("not value.ok", [0]),
        ("value.amount in (200, 7)", [0]),
        ("value.amount not in (200, 7)", [1]),
        ("value.amount not in (200, null)", []),
        ("value[0] = 1", [4]),
        ("headers.type is null", [2, 3, 4, 5]),
    ],
)
def test_raw_topics(text: str, hits: list[int]) -> None:
    rows = raw(
        b'{"amount": 200, "ok": false, "items": [{"name": "x"}, {"name": "y"}]}',
        b'{"amount": 150.5, "ok": true}',
        b"plain text",
        None,
        b"[1]",
        b"\xff",
        keys=[b"a", b"b", None, None, None, b"\xff"],
        headers=[[("type", b"order")], [("type", b"bill")], None, None, None, None],
    )
    assert matched(text, rows) == hits


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("amount > 100", [0]),
        ("id = 1 or amount = 1", [0, 1]),
        ('name like "A%"', [0, 1]),
        ('name like "A_a"', [0]),
        ('name not like "A%"', [2]),
        ('city in ("Rome", "Oslo")', [0, 1]),
        ("amount is null", [2]),
        ("price = 0.1", [0]),
        ("price + 0.2 = 0.3", [0]),
        ('at >= "2024-01-01T00:00:00Z"', [0]),
        ("at < 5", [1]),
        ('day = "2024-01-31"', [0]),
        ("day in ('2024-01-31', '2024-02-01')", [0]),
        ("where.lat > 1", [0]),
        ('where.tags[0] = "x"', [0]),
        ('marks["m"] = 3', [0]),
        ("ok and amount > 100", [0]),
        ("ok or amount is null", [0, 2]),
        ("not (ok or amount > 1000)", [1]),
        ("id + id = 2", [0]),
        ("id + 9223372036854775807 > 0", [0, 1, 2]),
        ("id = name", []),
        ("ok = 1", []),
        ("id < 99999999999999999999", [0, 1, 2]),
        ("data = 'raw'", [0]),
        ("`name` = 'Ada'", [0]),
        ("NAME = 'Ada'", None),
    ],
)
def test_typed_topics(text: str, hits: list[int] | None) -> None:
    rows = typed(
        {
            "id": 1, "name": "Ada", "amount": 150.0, "price": Decimal("0.10"), "city": "Rome", "ok": True,
            "at": 1704067200000, "day": 19753, "where": {"lat": 2.0, "tags": ["x"]},
            "marks": [("m", 3)], "data": b"raw",
        },
        {"id": 2, "name": "Anna", "amount": 1.0, "price": Decimal("7"), "city": "Oslo", "ok": False, "at": 4},
        {"id": 3, "name": "Bo"},
    )  # fmt: skip
    if hits is None:
        with pytest.raises(BadFilter, match="does not exist"):
            matched(text, rows)
    else:
        assert matched(text, rows) == hits


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "column 1 of"),
        ("amount >", "column 9 of"),
        ("amount > 100 city", "column 14 of"),
        ("(amount > 1", "column 12 of"),
        ("1 + 1", "column 1 of"),
        ("true", "column 1 of"),
        ("__import__('os')", "column 11 of"),
        ("amount.__class__ > 1 ; x", "column 22 of"),
        ("amount > 1 and lambda: 1", "column 22 of"),
        ("name like 5", "column 11 of"),
        ("name like '%' || 'a'", "column 15 of"),
        ("name in ()", "column 10 of"),
        ("name not 5", "column 10 of"),
        ("name is 5", "column 9 of"),
        ("a[-1] = 1", "column"),
        ("a[true] = 1", "column"),
        ("a.5 = 1", "column"),
        ('name = "open', "column 8 of"),
        ("x" * 4001, None),
        ("(" * 100 + "a = 1" + ")" * 100, "column"),
        (" or ".join(["a = 1"] * 100), "column"),
    ],
)
def test_what_is_refused(text: str, where: str | None) -> None:
    with pytest.raises(BadFilter) as caught:
        parse_filter(text)
    assert caught.value.fix
    assert where is None or where in (caught.value.where or "")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("city = 'Rome'", 'write "value.city"'),
        ("headers = 'x'", "value.headers"),
        ("timestamp.x = 1", "value.timestamp"),
        ("key.x = 1", "schema"),
    ],
)
def test_unknown_columns_of_raw_topics(text: str, fix: str) -> None:
    with pytest.raises(BadFilter) as caught:
        matched(text, raw(b"{}"))
    assert fix in (caught.value.fix or "")


@pytest.mark.parametrize(
    "text", ["amont > 1", "where.lon = 1", "amount.x = 1", "at > 'yesterday'", "headers['a'].b = 1"]
)
def test_unknown_columns_of_typed_topics(text: str) -> None:
    with pytest.raises(BadFilter) as caught:
        matched(text, typed({"id": 1}))
    assert "column 1 of" in (caught.value.where or "")


def test_dunder_names_are_only_names_in_the_document() -> None:
    assert matched("value.__class__ = 'x'", raw(b'{"__class__": "x"}', b"{}")) == [0]


def test_like_does_not_backtrack() -> None:
    rows = raw(b"a" * 20_000)
    assert matched(f"value like '{'%a' * 30}%b'", rows) == []


NUMBERS = st.sampled_from(
    ["1", "0", "2.5", "9007199254740993", "id", "count", "amount", "-amount", "id + count", "id * 2"]
)
TEXTS = st.sampled_from(["name", "'a'", "'b%'", "''"])
BOOLEANS = st.sampled_from(["ok", "true", "ok = false"])
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
ATOMS = st.one_of(
    st.builds("{} {} {}".format, NUMBERS, SIGNS, NUMBERS),
    st.builds("{} {} {}".format, TEXTS, SIGNS, TEXTS),
    st.builds("{} {} {}".format, NUMBERS, SIGNS, TEXTS),
    st.builds("{} is null".format, NUMBERS),
    st.builds("{} like 'a%'".format, TEXTS),
    st.builds("{} {} {}".format, BOOLEANS.map("({})".format), SIGNS, BOOLEANS.map("({})".format)),
    BOOLEANS.map("({} or ok)".format),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda c: st.builds("({} and {})".format, c, c) | st.builds("({} or {})".format, c, c) | c.map("not ({})".format),
    max_leaves=5,
)
SMALL = Schema.parse("id bigint, count int, amount double, name string, ok boolean")
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
            "count": st.none() | st.integers(-3, 3),
            "amount": st.none() | st.floats() | st.sampled_from([0.0, 1.0, 2.5, 9007199254740992.0]),
            "name": st.none() | st.text("ab", max_size=2),
            "ok": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=5,
)


@given(CONDITIONS, ROWS)
@settings(max_examples=150, deadline=None)
def test_at_once_and_value_by_value_agree(text: str, data: list[dict[str, Any]]) -> None:
    rows = pa.RecordBatch.from_pylist(data, SMALL.arrow)
    columns = filters._Columns(rows, text)
    slow = [v is True for v in filters._by_value(filters._bind(parse_filter(text), columns), columns)]
    assert filter_expression(text)(rows).to_pylist() == slow


def test_plain_columns_are_compared_at_once() -> None:
    rows = typed({"id": 1, "amount": 5.0, "name": "x", "ok": True})
    columns = filters._Columns(rows, "")
    for text in ("id > 1 and amount < 5", "name like 'x%' or not ok", "where.lat > 1", "at > 5", "amount is null"):
        assert isinstance(filters._at_once(filters._bind(parse_filter(text), columns), columns), pa.Array)


@given(st.text(max_size=60) | st.text("abvalue.()[]'\"=<>!andornotinlikeisnull 0123", max_size=60))
@settings(max_examples=150)
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadFilter):
        parse_filter(text)
