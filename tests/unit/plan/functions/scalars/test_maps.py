from collections.abc import Callable
from math import ceil, floor
from typing import Any

import pytest

from headrace.plan import types
from headrace.plan.functions import SCALARS
from headrace.plan.functions.java.hash_map_order import entries_in_hash_order
from headrace.plan.functions.signature import LambdaType, lambda_parameters, resolve
from tests.unit.plan.functions.function_call import run

INTS = types.array(types.INT)
TEXTS = types.array(types.STRING)
MAP = types.map_of(types.STRING, types.INT)


@pytest.mark.parametrize(
    ("name", "arguments", "kinds", "result"),
    [
        ("ENTRIES", ({"b": 2, "a": None}, True), [MAP, types.BOOLEAN], [{"K": "a", "V": None}, {"K": "b", "V": 2}]),
        ("ENTRIES", (None, True), [MAP, types.BOOLEAN], None),
        ("AS_MAP", (["a", "b", "c"], [1, None]), [TEXTS, INTS], {"a": 1, "b": None}),
        ("AS_MAP", (["a"], None), [TEXTS, INTS], None),
        ("MAP_KEYS", ({"a": None},), [MAP], ["a"]),
        ("MAP_KEYS", ({},), [MAP], []),
        ("MAP_KEYS", (None,), [MAP], None),
        ("MAP_VALUES", ({"a": None},), [MAP], [None]),
        ("MAP_UNION", ({"a": 1, "b": 2}, {"a": None}), [MAP, MAP], {"a": None, "b": 2}),
        ("MAP_UNION", (None, {"a": 1}), [MAP, MAP], {"a": 1}),
        ("MAP_UNION", ({"a": 1}, None), [MAP, MAP], {"a": 1}),
        ("MAP_UNION", (None, None), [MAP, MAP], None),
    ],
)
def test_result(name: str, arguments: tuple[Any, ...], kinds: list[Any], result: Any) -> None:
    assert run(name, *arguments, kinds=kinds) == result


def test_entries_are_structs() -> None:
    resolved = resolve(SCALARS["ENTRIES"], [MAP, types.BOOLEAN])
    assert resolved.result == types.array(types.struct([("K", types.STRING), ("V", types.INT)]))


def test_maps_of_json_have_the_order_of_javas_hash_map() -> None:
    """What `new HashMap<>(3)` gives for these keys; the sum of a REDUCE depends on it."""
    prices = {"yes, thanks": 3.5, "nope": 7.3, "sure, yeah": 2.1}
    assert [key for key, _ in entries_in_hash_order(prices)] == ["yes, thanks", "sure, yeah", "nope"]
    kinds: list[Any] = [types.map_of(types.STRING, types.DOUBLE), types.DOUBLE, LambdaType(3, types.DOUBLE)]
    step: Callable[..., float] = lambda s, k, v: float(ceil(v * s) if "ye" in k else floor(s * v))  # noqa: E731
    assert run("REDUCE", prices, 3.2, step, kinds=kinds) == 189.0


def test_hash_order_accepts_any_key() -> None:
    for keys in ([1 << 40, -1, 7], [True, False], [1.5, -0.0], ["好", "\U0001f600", ""]):
        assert dict(entries_in_hash_order(dict.fromkeys(keys, 0))) == dict.fromkeys(keys, 0)


@pytest.mark.parametrize(
    ("name", "arguments", "kinds", "result"),
    [
        ("FILTER", ([1, 2, 3], lambda x: x > 1), [INTS, LambdaType(1, types.BOOLEAN)], [2, 3]),
        ("FILTER", (None, lambda x: x > 1), [INTS, LambdaType(1, types.BOOLEAN)], None),
        ("FILTER", ({"a": 1, "b": 2}, lambda k, v: v > 1), [MAP, LambdaType(2, types.BOOLEAN)], {"b": 2}),
        ("TRANSFORM", ([1, 2], str), [INTS, LambdaType(1, types.STRING)], ["1", "2"]),
        ("TRANSFORM", (None, lambda x: x), [INTS, LambdaType(1, types.INT)], None),
        (
            "TRANSFORM",
            ({"a": 1}, lambda k, v: k + "!", lambda k, v: v + 1),
            [MAP, LambdaType(2, types.STRING), LambdaType(2, types.INT)],
            {"a!": 2},
        ),
        ("REDUCE", ([3, 6], 2, lambda s, x: s + x), [INTS, types.INT, LambdaType(2, types.INT)], 11),
        ("REDUCE", (None, 2, lambda s, x: s + x), [INTS, types.INT, LambdaType(2, types.INT)], 2),
        ("REDUCE", ([1], None, lambda s, x: s + x), [INTS, types.INT, LambdaType(2, types.INT)], None),
        ("REDUCE", ({"a": 3}, 0, lambda s, k, v: s + v), [MAP, types.INT, LambdaType(3, types.INT)], 3),
        ("REDUCE", (None, 0, lambda s, k, v: s + v), [MAP, types.INT, LambdaType(3, types.INT)], 0),
        ("REDUCE", ({"a": 3}, None, lambda s, k, v: s), [MAP, types.INT, LambdaType(3, types.INT)], None),
    ],
)
def test_lambda(name: str, arguments: tuple[Any, ...], kinds: list[Any], result: Any) -> None:
    assert run(name, *arguments, kinds=kinds) == result


def test_types_of_lambda_parameters() -> None:
    assert lambda_parameters(SCALARS["REDUCE"], [MAP, types.BIGINT, LambdaType(3)]) == {
        2: (types.BIGINT, types.STRING, types.INT)
    }
    assert lambda_parameters(SCALARS["TRANSFORM"], [INTS, LambdaType(1)]) == {1: (types.INT,)}


def test_a_condition_that_is_null_fails() -> None:
    with pytest.raises(ValueError, match="null"):
        run("FILTER", [True, None], lambda x: x, kinds=[types.array(types.BOOLEAN), LambdaType(1, types.BOOLEAN)])


def test_a_duplicate_key_is_refused() -> None:
    kinds: list[Any] = [MAP, LambdaType(2, types.STRING), LambdaType(2, types.INT)]
    with pytest.raises(ValueError, match="twice"):
        run("TRANSFORM", {"a": 1, "b": 2}, lambda k, v: "x", lambda k, v: v, kinds=kinds)
