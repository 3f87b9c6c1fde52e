"""EARLIEST_BY_OFFSET and LATEST_BY_OFFSET: values by the order in which their rows arrived, whatever their times.

With a number they return a list of that many values, oldest first. Nulls are skipped unless the last argument is FALSE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from headrace.errors import WrongArguments
from headrace.plan import types
from headrace.plan.functions.declaration import AggregateFunction, AggregateOverload, Aggregator
from headrace.plan.types import BIGINT

Entry = dict[str, Any]
Make = Callable[[Sequence[pa.DataType], Sequence[Any]], Aggregator]

_arrival = itemgetter("SEQ")


def _entry_type(kind: pa.DataType) -> pa.DataType:
    return types.struct([("SEQ", BIGINT), ("VAL", kind)])


def _one(latest: bool) -> Make:
    """Aggregates a single value; the state is null until there is one."""

    def merge(a: Entry | None, b: Entry | None) -> Entry | None:
        if a is None or b is None:
            return a or b
        return max(a, b, key=_arrival) if latest else min(a, b, key=_arrival)

    def make(kinds: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
        ignore_nulls = constants[0] if constants else True

        def add(state: Entry | None, number: int, value: Any) -> Entry | None:
            if (value is None and ignore_nulls) or (state is not None and not latest):
                return state
            return {"SEQ": number, "VAL": value}

        return Aggregator(
            _entry_type(kinds[0]), lambda: None, add, lambda state: state and state["VAL"], merge, ordered=True
        )

    return make


def _several(latest: bool) -> Make:
    def make(kinds: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
        count = constants[0]
        if count < 1:
            raise WrongArguments(
                f"{'latestN' if latest else 'earliestN'} must be 1 or greater, got {count}", fix="pass 1 or more"
            )
        ignore_nulls = constants[1] if len(constants) > 1 else True
        retained = slice(-count, None) if latest else slice(count)

        def add(state: list[Entry], number: int, value: Any) -> list[Entry]:
            if (value is None and ignore_nulls) or (len(state) == count and not latest):
                return state
            state.append({"SEQ": number, "VAL": value})
            return state[retained]

        def merge(a: list[Entry], b: list[Entry]) -> list[Entry]:
            return sorted(a + b, key=_arrival)[retained]

        return Aggregator(
            types.array(_entry_type(kinds[0])),
            list,
            add,
            lambda state: [entry["VAL"] for entry in state],
            merge,
            ordered=True,
        )

    return make


def _overloads(latest: bool) -> tuple[AggregateOverload, ...]:
    one, several = _one(latest), _several(latest)
    return (
        AggregateOverload("(value: T) -> T", one),
        AggregateOverload("(value: T, ignoreNulls: const boolean) -> T", one),
        AggregateOverload("(value: T, count: const int) -> array<T>", several),
        AggregateOverload("(value: T, count: const int, ignoreNulls: const boolean) -> array<T>", several),
    )


FUNCTIONS = (
    AggregateFunction(
        "EARLIEST_BY_OFFSET",
        "The value, or the values, that arrived first.",
        _overloads(latest=False),
        example=("EARLIEST_BY_OFFSET(amount)", "2"),
    ),
    AggregateFunction(
        "LATEST_BY_OFFSET",
        "The value, or the values, that arrived last.",
        _overloads(latest=True),
        example=("LATEST_BY_OFFSET(amount, 2)", "ARRAY[7, 3]"),
    ),
)
