"""Aggregates that collect values: lists, sets, histograms, the greatest n, and the value shared by all rows.

Results are always copies, because the state continues to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan import types
from headrace.plan.functions.aggregates.basic import ORDERED
from headrace.plan.functions.declaration import AggregateFunction, AggregateOverload, Aggregator
from headrace.plan.types import BIGINT, STRING

Types = Sequence[pa.DataType]
Constants = Sequence[Any]

LIMIT = 1000
LIMITS: Mapping[str, str] = {
    "COLLECT_LIST": "ksql.functions.collect_list.limit",
    "COLLECT_SET": "ksql.functions.collect_set.limit",
}
"""The settings that limit an aggregate's size. Their value, if set, is the aggregator's only constant."""


# -- COLLECT_LIST, COLLECT_SET --------------------------------------------------------------------------------------


def _collect(distinct: bool) -> Callable[[Types, Constants], Aggregator]:
    def make(kinds: Types, constants: Constants) -> Aggregator:
        limit = constants[0] if constants else LIMIT
        limit = limit if limit >= 0 else 1 << 31

        def add(items: list[Any], value: Any) -> list[Any]:
            if len(items) < limit and not (distinct and value in items):
                items.append(value)
            return items

        def merge(a: list[Any], b: list[Any]) -> list[Any]:
            for value in b:
                add(a, value)
            return a

        undo = None if distinct else _without_last
        return Aggregator(types.array(kinds[0]), list, add, list, merge, undo)

    return make


def _without_last(items: list[Any], value: Any) -> list[Any]:
    """Removes one of several equal items; which one cannot be known, so it is the last."""
    for place in range(len(items) - 1, -1, -1):
        if items[place] == value:
            del items[place]
            break
    return items


# -- HISTOGRAM ------------------------------------------------------------------------------------------------------


def _histogram(kinds: Types, constants: Constants) -> Aggregator:
    del kinds, constants

    def add(counts: dict[str, int], value: str | None, more: int = 1) -> dict[str, int]:
        if value is not None and (value in counts or len(counts) < LIMIT):
            counts[value] = counts.get(value, 0) + more
        return counts

    def undo(counts: dict[str, int], value: str | None) -> dict[str, int]:
        if value is not None and value in counts:
            counts[value] -= 1
            if not counts[value]:
                del counts[value]
        return counts

    def merge(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        for value, count in b.items():
            add(a, value, count)
        return a

    return Aggregator(types.map_of(STRING, BIGINT), dict, add, dict, merge, undo)


# -- ATTR -----------------------------------------------------------------------------------------------------------


def _attr(kinds: Types, constants: Constants) -> Aggregator:
    del constants

    def add(entries: list[dict[str, Any]], value: Any, more: int = 1) -> list[dict[str, Any]]:
        for entry in entries:
            if entry["VAL"] == value:
                entry["COUNT"] += more
                break
        else:
            entries.append({"VAL": value, "COUNT": more})
        return entries

    def undo(entries: list[dict[str, Any]], value: Any) -> list[dict[str, Any]]:
        return [entry for entry in add(entries, value, -1) if entry["COUNT"] > 0]

    def merge(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for entry in b:
            add(a, entry["VAL"], entry["COUNT"])
        return a

    return Aggregator(
        types.array(types.struct([("VAL", kinds[0]), ("COUNT", BIGINT)])),
        list,
        add,
        lambda entries: entries[0]["VAL"] if len(entries) == 1 else None,
        merge,
        undo,
    )


# -- TOPK, TOPKDISTINCT ---------------------------------------------------------------------------------------------


def _item_type(kinds: Types) -> pa.DataType:
    """A single column is listed as it is; several become a struct, sorted by the first."""
    if len(kinds) == 1:
        return kinds[0]
    return types.struct(zip(["sort_col", *(f"col{n}" for n in range(len(kinds) - 1))], kinds, strict=True))


def _greatest(
    item: pa.DataType, count: int, rank: Callable[[Any], Any], to_item: Callable[..., Any], distinct: bool = False
) -> Aggregator:
    def put(items: list[Any], new: Any) -> list[Any]:
        if distinct and new in items:
            return items
        place = len(items)
        while place and rank(items[place - 1]) < rank(new):
            place -= 1
        items.insert(place, new)
        return items[:count]

    def merge(a: list[Any], b: list[Any]) -> list[Any]:
        for new in b:
            a = put(a, new)
        return a

    def add(items: list[Any], *values: Any) -> list[Any]:
        return items if values[0] is None else put(items, to_item(*values))

    return Aggregator(types.array(item), list, add, list, merge)


def _topk(distinct: bool) -> Callable[[Types, Constants], Aggregator]:
    def make(kinds: Types, constants: Constants) -> Aggregator:
        item = _item_type(kinds)
        if len(kinds) == 1:
            return _greatest(item, constants[0], lambda value: value, lambda value: value, distinct)
        names = list(types.fields(item))
        return _greatest(
            item,
            constants[0],
            lambda value: value["sort_col"],
            lambda *values: dict(zip(names, values, strict=True)),
            distinct,
        )

    return make


def _topk_overloads(distinct: bool, more: str) -> tuple[AggregateOverload, ...]:
    make = _topk(distinct)
    return tuple(
        AggregateOverload(
            f"(value: {kind}, {more}count: const int) -> array<{kind}>",
            make,
            returns=lambda kinds: types.array(_item_type(kinds[:-1])),
        )
        for kind in ORDERED
    )


FUNCTIONS = (
    AggregateFunction(
        "COLLECT_LIST",
        "All values in order of arrival, including nulls, up to a limit of 1000 that a setting can change.",
        (AggregateOverload("(value: T) -> array<T>", _collect(distinct=False)),),
        example=("COLLECT_LIST(name)", "ARRAY['ann', 'bob', 'ann']"),
    ),
    AggregateFunction(
        "COLLECT_SET",
        "The distinct values in order of arrival, up to a limit of 1000 that a setting can change.",
        (AggregateOverload("(value: T) -> array<T>", _collect(distinct=True)),),
        example=("COLLECT_SET(name)", "ARRAY['ann', 'bob']"),
    ),
    AggregateFunction(
        "HISTOGRAM",
        "The number of occurrences of each string, for the first 1000 distinct strings.",
        (AggregateOverload("(value: string) -> map<string, bigint>", _histogram),),
        example=("HISTOGRAM(name)", "MAP('ann' := 2, 'bob' := 1)"),
    ),
    AggregateFunction(
        "ATTR",
        "The value that all rows share; null if they differ.",
        (AggregateOverload("(value: T) -> T", _attr),),
        example=("ATTR(country)", "'SE'"),
    ),
    AggregateFunction(
        "TOPK",
        "The greatest values, greatest first, as many as given; with more columns, structs sorted by the first.",
        _topk_overloads(distinct=False, more="more: any..., "),
        example=("TOPK(amount, 2)", "ARRAY[7, 3]"),
    ),
    AggregateFunction(
        "TOPKDISTINCT",
        "The greatest distinct values, greatest first, as many as given.",
        _topk_overloads(distinct=True, more=""),
        example=("TOPKDISTINCT(amount, 2)", "ARRAY[7, 3]"),
    ),
)
