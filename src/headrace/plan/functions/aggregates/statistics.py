"""Statistical aggregates in one pass: each row is processed once and can be retracted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, sqrt
from typing import Any

import pyarrow as pa

from headrace.plan import types
from headrace.plan.functions.declaration import AggregateFunction, AggregateOverload, Aggregator
from headrace.plan.types import BIGINT, DOUBLE

State = dict[str, Any]
NUMBERS = ("int", "bigint", "double")

# -- variance -------------------------------------------------------------------------------------------------------
# SQUARES is the sum of squared distances from the mean, updated with the method of Youngs and Cramer.


_SPREAD = types.struct([("SUM", DOUBLE), ("COUNT", BIGINT), ("SQUARES", DOUBLE)])


def _spread_add(state: State, value: float | None) -> State:
    if value is not None:
        count, total = state["COUNT"] + 1, state["SUM"] + value
        state["COUNT"], state["SUM"] = count, total
        if count > 1:
            state["SQUARES"] += (count * value - total) ** 2 / (count * (count - 1))
    return state


def _spread_undo(state: State, value: float | None) -> State:
    if value is not None and (count := state["COUNT"]):
        if count > 1:
            state["SQUARES"] -= (count * value - state["SUM"]) ** 2 / (count * (count - 1))
        state["COUNT"], state["SUM"] = count - 1, state["SUM"] - value
        if count <= 2:
            state["SQUARES"] = 0.0
    return state


def _spread_merge(a: State, b: State) -> State:
    if not a["COUNT"] or not b["COUNT"]:
        return a if a["COUNT"] else b
    n, m = a["COUNT"], b["COUNT"]
    apart = (m / n * a["SUM"] - b["SUM"]) ** 2 * n / (m * (n + m))
    return {"SUM": a["SUM"] + b["SUM"], "COUNT": n + m, "SQUARES": a["SQUARES"] + b["SQUARES"] + apart}


def _variance(state: State) -> float:
    return max(state["SQUARES"], 0.0) / (state["COUNT"] - 1) if state["COUNT"] > 1 else 0.0


def _spread(result: Callable[[State], float]) -> Callable[..., Aggregator]:
    def make(kinds: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
        del kinds, constants
        return Aggregator(
            _SPREAD,
            lambda: {"SUM": 0.0, "COUNT": 0, "SQUARES": 0.0},
            _spread_add,
            result,
            merge=_spread_merge,
            undo=_spread_undo,
        )

    return make


# -- correlation ----------------------------------------------------------------------------------------------------

_SUMS = ("X", "Y", "XX", "YY", "XY")
_PAIRS = types.struct([("COUNT", BIGINT), *((name, DOUBLE) for name in _SUMS)])


def _pairs(sign: int) -> Callable[[State, Any, Any], State]:
    def move(state: State, x: float | None, y: float | None) -> State:
        if x is not None and y is not None:
            x, y = float(x), float(y)
            state["COUNT"] += sign
            for name, part in zip(_SUMS, (x, y, x * x, y * y, x * y), strict=True):
                state[name] += sign * part
        return state

    return move


def _correlation(state: State) -> float:
    count, x, y = state["COUNT"], state["X"], state["Y"]
    product = (count * state["XX"] - x * x) * (count * state["YY"] - y * y)
    # Rounding may make it negative, where there is no variance to speak of.
    return (count * state["XY"] - x * y) / sqrt(product) if product > 0 else nan


def _correlations(kinds: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    del kinds, constants
    return Aggregator(
        _PAIRS,
        lambda: {"COUNT": 0, **dict.fromkeys(_SUMS, 0.0)},
        _pairs(1),
        _correlation,
        merge=lambda a, b: {name: a[name] + b[name] for name in a},
        undo=_pairs(-1),
    )


FUNCTIONS = (
    AggregateFunction(
        "STDDEV_SAMPLE",
        "The standard deviation of a sample; 0 for fewer than two values.",
        tuple(
            AggregateOverload(f"(value: {kind}) -> double", _spread(lambda state: sqrt(_variance(state))))
            for kind in NUMBERS
        ),
        example=("STDDEV_SAMPLE(amount)", "2.6457513110645907"),
    ),
    AggregateFunction(
        "STDDEV_SAMP",
        "The variance of a sample, despite its name, as in ksqlDB. STDDEV_SAMPLE is the standard deviation.",
        tuple(AggregateOverload(f"(value: {kind}) -> double", _spread(_variance)) for kind in NUMBERS),
        example=("STDDEV_SAMP(amount)", "7.0"),
    ),
    AggregateFunction(
        "CORRELATION",
        "Pearson's correlation of two columns, over rows in which neither is null; NaN for fewer than two rows.",
        tuple(AggregateOverload(f"(x: {kind}, y: {kind}) -> double", _correlations) for kind in NUMBERS),
        example=("CORRELATION(amount, weight)", "1.0"),
    ),
)
