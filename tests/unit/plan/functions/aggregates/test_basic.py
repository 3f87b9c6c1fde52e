from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import WrongArguments
from headrace.plan import types
from headrace.plan.functions import AGGREGATES, SCALARS
from headrace.plan.functions.declaration import Aggregator
from headrace.plan.functions.signature import resolve
from headrace.plan.types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, INT, STRING, TIME, TIMESTAMP

Kinds = Sequence[pa.DataType]
NAN = math.nan
MONEY = types.decimal(5, 2)


def made(name: str, kinds: Kinds, constants: Sequence[Any] = ()) -> Aggregator:
    """The aggregator of a call: `kinds` are the arguments that are no constants."""
    constant_kinds = [BOOLEAN if isinstance(c, bool) else INT for c in constants if name not in ("COLLECT_LIST",)]
    found = resolve(AGGREGATES[name], [*kinds, *constant_kinds])
    return found.overload.make(kinds, constants)


def results(aggregator: Aggregator, rows: Sequence[Any]) -> list[Any]:
    """The result after each row; a row that is no tuple is the only argument."""
    state, out = aggregator.initial(), []
    for number, row in enumerate(rows):
        arguments = row if isinstance(row, tuple) else (row,)
        state = aggregator.add(state, *([number] if aggregator.ordered else []), *arguments)
        out.append(copy.deepcopy(aggregator.result(state)))
    return out


CASES = [
    ("COUNT", [], (), [(), ()], [1, 2]),
    ("COUNT", [STRING], (), ["a", None, "b"], [1, 1, 2]),
    ("COUNT_DISTINCT", [STRING], (), ["one", "two", "one", None], [1, 2, 2, 2]),
    ("COUNT_DISTINCT", [types.map_of(STRING, INT)], (), [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}], [1, 1, 2]),
    ("SUM", [INT], (), [2, None, 3], [2, 2, 5]),
    ("SUM", [INT], (), [None], [0]),
    ("SUM", [INT], (), [2**31 - 1, 1], [2**31 - 1, -(2**31)]),
    ("SUM", [BIGINT], (), [2**63 - 1, 1], [2**63 - 1, -(2**63)]),
    ("SUM", [DOUBLE], (), [0.5, 0.25], [0.5, 0.75]),
    ("SUM", [MONEY], (), [None, Decimal("1.10"), Decimal("2.20")], [Decimal("0.00"), Decimal("1.10"), Decimal("3.30")]),
    ("SUM_LIST", [types.array(DOUBLE)], (), [[1.0, 1.0], [2.0, None], None], [2.0, 4.0, 4.0]),
    ("SUM_LIST", [types.array(INT)], (), [[1, 2], []], [3, 3]),
    ("AVG", [INT], (), [1, 2, 2, None], [1.0, 1.5, 1.6666666666666667, 1.6666666666666667]),
    ("AVG", [INT], (), [None, 2**31 - 1, 2**31 - 1], [0.0, 2147483647.0, 2147483647.0]),
    ("AVG", [BIGINT], (), [-1, 2**63 - 1, 1], [-1.0, 4.611686018427388e18, 3.0744573456182584e18]),
    ("AVG", [DOUBLE], (), [2.3, -200000.6, 0.0], [2.3, -99999.15000000001, -66666.1]),
    ("MIN", [INT], (), [None, 3, 1, None, 2], [None, 3, 1, 1, 1]),
    ("MAX", [STRING], (), ["b", "a", "c"], ["b", "b", "c"]),
    ("MAX", [MONEY], (), [Decimal("1.00"), Decimal("10.00")], [Decimal("1.00"), Decimal("10.00")]),
    ("MIN", [DATE], (), [5, 3], [5, 3]),
    ("COLLECT_LIST", [INT], (), [1, None, 1], [[1], [1, None], [1, None, 1]]),
    ("COLLECT_LIST", [INT], (1,), [1, 2], [[1], [1]]),
    ("COLLECT_SET", [INT], (), [1, None, 1, None], [[1], [1, None], [1, None], [1, None]]),
    ("HISTOGRAM", [STRING], (), ["a", None, "b", "a"], [{"a": 1}, {"a": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1}]),
    ("ATTR", [INT], (), [1, 1, 2], [1, 1, None]),
    ("ATTR", [types.array(INT)], (), [[1], [1]], [[1], [1]]),
    (
        "TOPK",
        [INT],
        (3,),
        [0, 100, 99, 7, None, 100],
        [[0], [100, 0], [100, 99, 0], [100, 99, 7], [100, 99, 7], [100, 100, 99]],
    ),
    ("TOPKDISTINCT", [STRING], (2,), ["a", "b", "b", "d"], [["a"], ["b", "a"], ["b", "a"], ["d", "b"]]),
    ("EARLIEST_BY_OFFSET", [INT], (), [None, 1, 2], [None, 1, 1]),
    ("EARLIEST_BY_OFFSET", [INT], (False,), [None, 1], [None, None]),
    ("EARLIEST_BY_OFFSET", [INT], (2,), [None, 1, 2, 3], [[], [1], [1, 2], [1, 2]]),
    ("EARLIEST_BY_OFFSET", [INT], (2, False), [None, 1, 2], [[None], [None, 1], [None, 1]]),
    ("LATEST_BY_OFFSET", [INT], (), [1, None, 2], [1, 1, 2]),
    ("LATEST_BY_OFFSET", [INT], (False,), [1, None], [1, None]),
    ("LATEST_BY_OFFSET", [INT], (2, True), [12, None, 13, 14], [[12], [12], [12, 13], [13, 14]]),
    ("LATEST_BY_OFFSET", [INT], (2, False), [12, None, 13], [[12], [12, None], [None, 13]]),
    (
        "STDDEV_SAMP",
        [DOUBLE],
        (),
        [10.0, 12.0, 13.0, 14.0, 16.0, None],
        [0.0, 2.0, 2.333333333333333, 2.9166666666666665, 5.0, 5.0],
    ),
    (
        "STDDEV_SAMPLE",
        [DOUBLE],
        (),
        [10.0, 12.0, 13.0, 14.0, 16.0],
        [0.0, 1.4142135623730951, 1.5275252316519465, 1.707825127659933, 2.23606797749979],
    ),
    (
        "CORRELATION",
        [DOUBLE, DOUBLE],
        (),
        [(1.5, 8.0), (-1.0, -2.0), (-4.5, -1.0), (None, 6.0)],
        [NAN, 1.0, 0.7580764521133173, 0.7580764521133173],
    ),
    ("CORRELATION", [INT, INT], (), [(1, 8), (-1, -2), (-4, -1)], [NAN, 1.0, 0.7455284088780169]),
]


@pytest.mark.parametrize(
    ("name", "kinds", "constants", "rows", "expected"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_aggregates_have_their_results(
    name: str, kinds: Kinds, constants: Sequence[Any], rows: list[Any], expected: list[Any]
) -> None:
    # As text, since NaN equals nothing.
    assert repr(results(made(name, kinds, constants), rows)) == repr(expected)


def test_several_columns_become_structs() -> None:
    found = resolve(AGGREGATES["TOPK"], [INT, STRING, INT])
    rows = [(0, "zero"), (100, "one"), (None, "two"), (100, None)]
    assert found.result == types.array(types.struct([("sort_col", INT), ("col0", STRING)]))
    assert results(found.overload.make([INT, STRING], (2,)), rows)[-1] == [
        {"sort_col": 100, "col0": "one"},
        {"sort_col": 100, "col0": None},
    ]


def test_a_sum_that_outgrows_its_decimal_is_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"DECIMAL\(5, 2\)"):
        results(made("SUM", [MONEY]), [Decimal("999.99"), Decimal("0.01")])


@pytest.mark.parametrize(
    ("name", "kinds", "result"),
    [
        ("COUNT", [], BIGINT),
        ("SUM", [INT], INT),
        ("SUM", [BIGINT], BIGINT),
        ("SUM", [MONEY], MONEY),
        ("AVG", [MONEY], DOUBLE),
        ("SUM_LIST", [types.array(BIGINT)], BIGINT),
        ("MIN", [TIMESTAMP], TIMESTAMP),
        ("MAX", [TIME], TIME),
        ("MAX", [BYTES], BYTES),
        ("COLLECT_SET", [MONEY], types.array(MONEY)),
        ("TOPK", [MONEY, INT], types.array(MONEY)),
        ("HISTOGRAM", [STRING], types.map_of(STRING, BIGINT)),
        ("LATEST_BY_OFFSET", [STRING], STRING),
        ("LATEST_BY_OFFSET", [STRING, INT], types.array(STRING)),
        ("EARLIEST_BY_OFFSET", [STRING, BOOLEAN], STRING),
    ],
)
def test_aggregates_have_their_types(name: str, kinds: Kinds, result: pa.DataType) -> None:
    assert resolve(AGGREGATES[name], kinds).result == result


@pytest.mark.parametrize(("name", "kind"), [("MIN", BOOLEAN), ("SUM", STRING), ("HISTOGRAM", INT), ("TOPK", BOOLEAN)])
def test_wrong_types_are_refused(name: str, kind: pa.DataType) -> None:
    with pytest.raises(WrongArguments):
        resolve(AGGREGATES[name], [kind])


STATISTICS = {"CORRELATION", "STDDEV_SAMP", "STDDEV_SAMPLE"}
UNDOABLE = {"ATTR", "AVG", "COLLECT_LIST", "COUNT", "HISTOGRAM", "SUM", "SUM_LIST"} | STATISTICS
PLAIN = {"COUNT", "MAX", "MIN", "SUM", "SUM_LIST"}


def test_which_aggregates_have_undo() -> None:
    able = {name for name, kinds, constants, _, _ in CASES if made(name, kinds, constants).undo}
    assert able == UNDOABLE
    assert all(made(name, kinds, constants).merge for name, kinds, constants, _, _ in CASES)


def test_which_aggregates_have_scalar_state() -> None:
    plain = {
        name for name, kinds, constants, _, _ in CASES if not types.is_nested(made(name, kinds, constants).state_type)
    }
    assert plain == PLAIN


numbers = st.none() | st.integers(-50, 50)
single = st.sampled_from(["ATTR", "AVG", "COLLECT_LIST", "COUNT", "SUM", "STDDEV_SAMPLE"])


@given(single, st.lists(numbers, max_size=10), numbers)
def test_undo_after_add_restores(name: str, before: list[Any], value: Any) -> None:
    aggregator = made(name, [BIGINT])
    assert aggregator.undo
    state = aggregator.initial()
    for number in before:
        state = aggregator.add(state, number)
    expected = aggregator.result(copy.deepcopy(state))
    again = aggregator.result(aggregator.undo(aggregator.add(state, value), value))
    assert again == (pytest.approx(expected, abs=1e-6) if isinstance(expected, float) else expected)


@given(st.sampled_from(["a", "b", None]), st.lists(st.sampled_from(["a", "b", None])))
def test_undo_of_a_histogram(value: str | None, before: list[str | None]) -> None:
    aggregator = made("HISTOGRAM", [STRING])
    assert aggregator.undo
    state = aggregator.initial()
    for text in before:
        state = aggregator.add(state, text)
    expected = aggregator.result(state)
    assert aggregator.result(aggregator.undo(aggregator.add(state, value), value)) == expected


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        (n, ())
        for n in [
            "ATTR",
            "AVG",
            "COUNT",
            "COUNT_DISTINCT",
            "COLLECT_LIST",
            "COLLECT_SET",
            "SUM",
            "MIN",
            "MAX",
            "STDDEV_SAMP",
        ]
    ]
    + [("TOPK", (3,)), ("TOPKDISTINCT", (3,)), ("LATEST_BY_OFFSET", (3,)), ("EARLIEST_BY_OFFSET", (False,))],
)
@given(left=st.lists(numbers, max_size=8), right=st.lists(numbers, max_size=8))
def test_merged_states_agree_with_adding_all_values(
    name: str, constants: tuple[Any, ...], left: list[Any], right: list[Any]
) -> None:
    aggregator = made(name, [BIGINT], constants)
    assert aggregator.merge

    def folded(rows: list[Any], first: int = 0) -> Any:
        state = aggregator.initial()
        for number, value in enumerate(rows, first):
            state = aggregator.add(state, *([number] if aggregator.ordered else []), value)
        return state

    whole = aggregator.result(folded(left + right))
    merged = aggregator.result(aggregator.merge(folded(left), folded(right, len(left))))
    assert merged == (pytest.approx(whole, abs=1e-6) if isinstance(whole, float) else whole)


def test_latest_by_offset_merges_by_arrival() -> None:
    aggregator = made("LATEST_BY_OFFSET", [INT], (2,))
    assert aggregator.merge
    early, late = aggregator.add([], 7, "seventh"), aggregator.add(aggregator.add([], 3, "third"), 8, "eighth")
    assert aggregator.result(aggregator.merge(early, late)) == ["seventh", "eighth"]


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ([1, 2], [[None, None], [None, 2], [1, None], [1, 2]]),
        ([1, None], [[None, None], [1, None]]),
        ([], [[]]),
    ],
)
def test_cube_explode(items: list[Any], rows: list[Any]) -> None:
    assert SCALARS["CUBE_EXPLODE"].overloads[0].python(items) == rows


def test_explode() -> None:
    explode = SCALARS["EXPLODE"]
    assert explode.table
    assert explode.overloads[0].python([1, None]) == [1, None]
    assert resolve(explode, [types.array(MONEY)]).result == MONEY
    with pytest.raises(WrongArguments):
        resolve(explode, [types.map_of(STRING, INT)])
