from decimal import Decimal
from math import nan
from typing import Any

import pyarrow as pa
import pytest

from headrace.plan import types
from tests.unit.plan.functions.function_call import run

INTS = types.array(types.INT)
DOUBLES = types.array(types.DOUBLE)
TEXTS = types.array(types.STRING)
FLAGS = types.array(types.BOOLEAN)
DECIMALS = types.array(types.decimal(5, 2))
NESTED = types.array(TEXTS)
MAPS = types.array(types.map_of(types.STRING, types.INT))
STRUCTS = types.array(types.struct([("A", types.INT), ("B", types.DOUBLE)]))
DATES = types.array(types.DATE)

CASES: list[tuple[str, tuple[Any, ...], list[pa.DataType], Any]] = [
    ("ARRAY_CONCAT", ([1, 2], [2]), [INTS, INTS], [1, 2, 2]),
    ("ARRAY_CONCAT", (None, [2]), [INTS, INTS], [2]),
    ("ARRAY_CONCAT", ([1], None), [INTS, INTS], [1]),
    ("ARRAY_CONCAT", (None, None), [INTS, INTS], None),
    ("ARRAY_CONTAINS", (["a", None], "a"), [TEXTS, types.STRING], True),
    ("ARRAY_CONTAINS", (["a"], None), [TEXTS, types.STRING], False),
    ("ARRAY_CONTAINS", (["a", None], None), [TEXTS, types.STRING], True),
    ("ARRAY_CONTAINS", (None, "a"), [TEXTS, types.STRING], False),
    ("ARRAY_CONTAINS", ([nan], nan), [DOUBLES, types.DOUBLE], True),
    ("ARRAY_CONTAINS", ([0.0], -0.0), [DOUBLES, types.DOUBLE], False),
    ("ARRAY_CONTAINS", ([["a"]], ["a"]), [NESTED, TEXTS], True),
    ("ARRAY_DISTINCT", ([0, None, 1, 0, None, -1],), [INTS], [0, None, 1, -1]),
    ("ARRAY_DISTINCT", ([],), [INTS], []),
    ("ARRAY_DISTINCT", (None,), [INTS], None),
    ("ARRAY_DISTINCT", ([{"a": 1}, {"a": 1}, None],), [MAPS], [{"a": 1}, None]),
    ("ARRAY_DISTINCT", ([{"A": 1, "B": nan}, {"A": 1, "B": nan}],), [STRUCTS], [{"A": 1, "B": nan}]),
    ("ARRAY_EXCEPT", (["foo", None, "bar", "foo"], ["bar", "baz"]), [TEXTS, TEXTS], ["foo", None]),
    ("ARRAY_EXCEPT", (["foo"], None), [TEXTS, TEXTS], None),
    ("ARRAY_INTERSECT", ([0, 0, 1, 0, -1], [1, -2, 0]), [INTS, INTS], [0, 1]),
    ("ARRAY_INTERSECT", ([None, 1], [None]), [INTS, INTS], [None]),
    ("ARRAY_INTERSECT", (None, [1]), [INTS, INTS], None),
    ("ARRAY_UNION", ([1, 2, 1], [4, 1]), [INTS, INTS], [1, 2, 4]),
    ("ARRAY_UNION", ([1], None), [INTS, INTS], None),
    ("ARRAY_REMOVE", ([1, 2, None, 2], 2), [INTS, types.INT], [1, None]),
    ("ARRAY_REMOVE", ([1, None], None), [INTS, types.INT], [1]),
    ("ARRAY_REMOVE", (None, 1), [INTS, types.INT], None),
    ("ARRAY_REMOVE", ([["a", "b"], ["a"], None], ["a"]), [NESTED, TEXTS], [["a", "b"], None]),
    ("ARRAY_JOIN", ([True, None, False], "|"), [FLAGS, types.STRING], "true|null|false"),
    ("ARRAY_JOIN", ([1.23, -23.42, 0.0, 1e10],), [DOUBLES], "1.23,-23.42,0.0,1.0E10"),
    ("ARRAY_JOIN", ([Decimal("123.45"), Decimal("0.10")], "#"), [DECIMALS, types.STRING], "123.45#0.10"),
    ("ARRAY_JOIN", ([1, 23], None), [INTS, types.STRING], "123"),
    ("ARRAY_JOIN", ([],), [INTS], ""),
    ("ARRAY_JOIN", (None, "-"), [INTS, types.STRING], None),
    ("ARRAY_LENGTH", ([1, None],), [INTS], 2),
    ("ARRAY_LENGTH", (None,), [INTS], None),
    ("ARRAY_MAX", (["foo", "fo", "Food", None, "F", "food"],), [TEXTS], "food"),
    ("ARRAY_MIN", (["foo", "fo", "Food", None, "F", "food"],), [TEXTS], "F"),
    ("ARRAY_MAX", ([None, False, True],), [FLAGS], True),
    ("ARRAY_MIN", ([nan, 1.0],), [DOUBLES], 1.0),
    ("ARRAY_MAX", ([None],), [INTS], None),
    ("ARRAY_MIN", ([],), [INTS], None),
    ("ARRAY_MIN", (None,), [INTS], None),
    ("ARRAY_MAX", ([3, -1],), [DATES], 3),
    ("ARRAY_SORT", ([0, None, 1, 0, -1],), [INTS], [-1, 0, 0, 1, None]),
    ("ARRAY_SORT", (["foo", "fo", "Food", None, "F"], "desc"), [TEXTS, types.STRING], ["foo", "fo", "Food", "F", None]),
    ("ARRAY_SORT", ([2, 1], "sideways"), [INTS, types.STRING], None),
    ("ARRAY_SORT", (None,), [INTS], None),
    ("SLICE", (["a", "b", "c", "d"], 2, 3), [TEXTS, types.INT, types.INT], ["b", "c"]),
    ("SLICE", (["a", "b"], None, 1), [TEXTS, types.INT, types.INT], ["a"]),
    ("SLICE", (["a", "b"], 2, None), [TEXTS, types.INT, types.INT], ["b"]),
    ("SLICE", (["a", "b"], 2, 1), [TEXTS, types.INT, types.INT], []),
    ("SLICE", (["a", "b"], 0, 1), [TEXTS, types.INT, types.INT], None),
    ("SLICE", (["a", "b"], 1, 3), [TEXTS, types.INT, types.INT], None),
    ("SLICE", (None, 1, 3), [TEXTS, types.INT, types.INT], None),
]


@pytest.mark.parametrize(("name", "arguments", "kinds", "result"), CASES)
def test_result(name: str, arguments: tuple[Any, ...], kinds: list[pa.DataType], result: Any) -> None:
    assert repr(run(name, *arguments, kinds=kinds)) == repr(result)


def test_arguments_are_not_changed() -> None:
    items = [3, 1, None, 3]
    run("ARRAY_SORT", items, kinds=[INTS])
    run("ARRAY_CONCAT", items, [1], kinds=[INTS, INTS])
    assert items == [3, 1, None, 3]


@pytest.mark.parametrize("name", ["ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT"])
def test_items_without_an_order_are_refused(name: str) -> None:
    with pytest.raises(TypeError):
        run(name, [["a"]], kinds=[NESTED])


def test_only_simple_items_are_joined() -> None:
    with pytest.raises(ValueError, match="ARRAY_JOIN"):
        run("ARRAY_JOIN", [["a"]], kinds=[NESTED])
