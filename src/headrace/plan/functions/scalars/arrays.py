"""Array functions: set operations, sorting, slices and text. Items are compared as in Java, and null equals null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.formats.java_numbers import double_text
from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.functions.java.natural_order import Key, equality_key, order_key
from headrace.plan.limits import check_items
from headrace.plan.limits import join_bounded as joined_texts
from headrace.plan.types import NULL, is_array

AREA = "array"
Types = Sequence[pa.DataType]
Maker = Callable[[Types], Callable[..., Any]]


def _item_type(types: Types) -> pa.DataType:
    return next((kind.value_type for kind in types if is_array(kind)), NULL)


# -- sets -----------------------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _with_equality(function: Callable[..., Any]) -> Maker:
    """Returns a factory for a function whose first argument is the key of the items' equality."""

    def make(types: Types) -> Callable[..., Any]:
        key = equality_key(_item_type(types)) or _same
        return lambda *arguments: function(key, *arguments)

    return make


def distinct(key: Key, items: list[Any]) -> list[Any]:
    """Returns each item once, at its first position."""
    firsts: dict[Any, Any] = {}
    for item in items:
        firsts.setdefault(key(item), item)
    return list(firsts.values())


def without(key: Key, items: list[Any], others: list[Any]) -> list[Any]:
    dropped = set(map(key, others))
    return [item for item in distinct(key, items) if key(item) not in dropped]


def shared(key: Key, items: list[Any], others: list[Any]) -> list[Any]:
    other_keys = set(map(key, others))
    return [item for item in distinct(key, items) if key(item) in other_keys]


def union(key: Key, items: list[Any], others: list[Any]) -> list[Any]:
    return distinct(key, [*items, *others])


def contains(key: Key, items: list[Any] | None, target: Any) -> bool:
    if items is None:
        return False
    target = key(target)
    return any(key(item) == target for item in items)


def removed(key: Key, items: list[Any] | None, unwanted: Any) -> list[Any] | None:
    if items is None:
        return None
    unwanted = key(unwanted)
    return [item for item in items if key(item) != unwanted]


def joined(items: list[Any] | None, others: list[Any] | None) -> list[Any] | None:
    if items is None or others is None:
        return others if items is None else items
    check_items(len(items) + len(others))
    return items + others


# -- order ----------------------------------------------------------------------------------------------------------

_DESCENDING = {"ASC": False, "ASCENDING": False, "DESC": True, "DESCENDING": True}


def _extreme(choose: Callable[..., Any]) -> Maker:
    def make(types: Types) -> Callable[[list[Any]], Any]:
        key = order_key(_item_type(types))
        return lambda items: choose((item for item in items if item is not None), key=key, default=None)

    return make


def _sorter(types: Types) -> Callable[..., list[Any] | None]:
    key = order_key(_item_type(types))

    def sort(items: list[Any], direction: str = "ASC") -> list[Any] | None:
        """Nulls sort last in either direction; an invalid direction gives null."""
        descending = _DESCENDING.get(direction.upper())
        if descending is None:
            return None
        present = sorted((item for item in items if item is not None), key=key, reverse=descending)
        return present + [None] * (len(items) - len(present))

    return sort


# -- pieces and text ------------------------------------------------------------------------------------------------


def piece(items: list[Any] | None, first: int | None, last: int | None) -> list[Any] | None:
    """Slices from the first to the last position, counted from 1; null if one of them does not exist."""
    if items is None:
        return None
    start = 0 if first is None else first - 1
    end = len(items) if last is None else last
    return items[start:end] if 0 <= start <= end <= len(items) else None


def text_of(value: Any) -> str:
    """Formats a simple value as Java's `toString`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, int | str | Decimal):
        return str(value)
    raise ValueError("ARRAY_JOIN takes arrays of booleans, numbers or strings")


def text(items: list[Any] | None, delimiter: str | None = ",") -> str | None:
    return None if items is None else joined_texts(delimiter or "", list(map(text_of, items)))


def _over_sets(name: str, doc: str, python: Callable[..., Any], example: tuple[str, str]) -> Function:
    """Declares a function of two arrays as sets."""
    overload = Overload("(left: array<T>, right: array<T>) -> array<T>", _with_equality(python), typed=True)
    return Function(name, doc, never_growing(overload), example, area=AREA)


FUNCTIONS = (
    Function(
        "ARRAY_CONCAT",
        "The items of both arrays, one after the other; a null array counts as empty.",
        (
            Overload(
                "(left: array<T>, right: array<T>) -> array<T>",
                joined,
                NullRule.PASS,
                spark="coalesce(concat({0}, {1}), {0}, {1})",
            ),
        ),
        ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[1, 2, 2, 3]"),
        area=AREA,
    ),
    Function(
        "ARRAY_CONTAINS",
        "Whether an item equals the value; false for a null array.",
        (Overload("(list: array<T>, value: T) -> boolean", _with_equality(contains), NullRule.PASS, typed=True),),
        ("ARRAY_CONTAINS(ARRAY[1, 2, 3], 3)", "true"),
        area=AREA,
    ),
    Function(
        "ARRAY_DISTINCT",
        "Each item once, in the order of first occurrence.",
        never_growing(Overload("(list: array<T>) -> array<T>", _with_equality(distinct), typed=True)),
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", "ARRAY[1, 2]"),
        area=AREA,
    ),
    _over_sets(
        "ARRAY_EXCEPT",
        "The distinct items of the first array that are not in the second.",
        without,
        ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2, 3])", "ARRAY[1]"),
    ),
    _over_sets(
        "ARRAY_INTERSECT",
        "The distinct items that both arrays contain.",
        shared,
        ("ARRAY_INTERSECT(ARRAY[1, 2, 3, 1], ARRAY[2, 1])", "ARRAY[1, 2]"),
    ),
    _over_sets(
        "ARRAY_UNION",
        "The distinct items of both arrays.",
        union,
        ("ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[4, 1])", "ARRAY[1, 2, 4]"),
    ),
    Function(
        "ARRAY_REMOVE",
        "The array without the items that equal the value; a null value removes nulls.",
        never_growing(
            Overload("(list: array<T>, value: T) -> array<T>", _with_equality(removed), NullRule.PASS, typed=True)
        ),
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2], 2)", "ARRAY[1, 3]"),
        area=AREA,
    ),
    Function(
        "ARRAY_JOIN",
        "The items joined into one string by a delimiter, by default a comma.",
        (
            Overload("(list: array<T>) -> string", text),
            Overload("(list: array<T>, delimiter: string) -> string", text, NullRule.PASS),
        ),
        ("ARRAY_JOIN(ARRAY[1, 2, 3], '-')", "'1-2-3'"),
        area=AREA,
    ),
    Function(
        "ARRAY_LENGTH",
        "The number of items.",
        (Overload("(list: array<T>) -> int", len, spark="size({0})"),),
        ("ARRAY_LENGTH(ARRAY[1, 2, 3])", "3"),
        area=AREA,
    ),
    Function(
        "ARRAY_MAX",
        "The greatest item that is not null.",
        never_growing(Overload("(list: array<T>) -> T", _extreme(max), typed=True)),
        ("ARRAY_MAX(ARRAY[-1, 2, 0])", "2"),
        area=AREA,
    ),
    Function(
        "ARRAY_MIN",
        "The least item that is not null.",
        never_growing(Overload("(list: array<T>) -> T", _extreme(min), typed=True)),
        ("ARRAY_MIN(ARRAY[-1, 2, 0])", "-1"),
        area=AREA,
    ),
    Function(
        "ARRAY_SORT",
        "The items in order, ASC or DESC, with nulls at the end.",
        never_growing(
            Overload("(list: array<T>) -> array<T>", _sorter, typed=True),
            Overload("(list: array<T>, direction: string) -> array<T>", _sorter, typed=True),
        ),
        ("ARRAY_SORT(ARRAY[3, 1, 2], 'DESC')", "ARRAY[3, 2, 1]"),
        area=AREA,
    ),
    Function(
        "SLICE",
        "The items from one position to another, both included; the first position is 1.",
        never_growing(Overload("(list: array<T>, from: int, to: int) -> array<T>", piece, NullRule.PASS)),
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", "ARRAY[2, 3]"),
        area=AREA,
    ),
)
