"""Maps, and lambdas over arrays and maps. Where the order of entries is visible, it is that of Java's HashMap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.functions.java.hash_map_order import entries_in_hash_order
from headrace.plan.functions.java.natural_order import text_order

Map = dict[Any, Any]


def as_entries(values: Map, is_sorted: bool) -> list[Map]:
    pairs = sorted(values.items(), key=lambda pair: text_order(pair[0])) if is_sorted else entries_in_hash_order(values)
    return [{"K": key, "V": value} for key, value in pairs]


def zipped(keys: list[Any], values: list[Any]) -> Map:
    """Returns as many entries as the shorter list has items."""
    return dict(zip(keys, values, strict=False))


def keys_of(values: Map) -> list[Any]:
    return [key for key, _ in entries_in_hash_order(values)]


def values_of(values: Map) -> list[Any]:
    return [value for _, value in entries_in_hash_order(values)]


def union(left: Map | None, right: Map | None) -> Map | None:
    if left is None and right is None:
        return None
    return {**(left or {}), **(right or {})}


# -- lambdas --------------------------------------------------------------------------------------------------------


def _sure(answer: bool | None) -> bool:
    if answer is None:
        raise ValueError("the lambda of FILTER gave null")
    return answer


def filter_array(items: list[Any], keep: Callable[[Any], bool | None]) -> list[Any]:
    return [item for item in items if _sure(keep(item))]


def filter_map(values: Map, keep: Callable[[Any, Any], bool | None]) -> Map:
    return {key: value for key, value in values.items() if _sure(keep(key, value))}


def transform_array(items: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    return [change(item) for item in items]


def transform_map(values: Map, to_key: Callable[[Any, Any], Any], to_value: Callable[[Any, Any], Any]) -> Map:
    """Rejects a duplicate key, which would lose an entry."""
    changed: Map = {}
    for key, value in entries_in_hash_order(values):
        new = to_key(key, value)
        if new in changed:
            raise ValueError(f"the lambda of TRANSFORM gave the key {new!r} twice")
        changed[new] = to_value(key, value)
    return changed


def reduce_array(items: list[Any] | None, state: Any, step: Callable[[Any, Any], Any]) -> Any:
    if state is None:
        return None
    for item in items or ():
        state = step(state, item)
    return state


def reduce_map(values: Map | None, state: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
    if state is None:
        return None
    for key, value in entries_in_hash_order(values or {}):
        state = step(state, key, value)
    return state


FUNCTIONS = (
    Function(
        "ENTRIES",
        "The entries of a map as structs of K and V, optionally sorted by key.",
        (Overload("(values: map<string, V>, sorted: boolean) -> array<struct<K string, V V>>", as_entries),),
        ("ENTRIES(MAP('b' := 2, 'a' := 1), true)", "ARRAY[STRUCT(K := 'a', V := 1), STRUCT(K := 'b', V := 2)]"),
        area="map",
    ),
    Function(
        "AS_MAP",
        "A map from a list of keys and a list of values.",
        (Overload("(keys: array<string>, values: array<V>) -> map<string, V>", zipped),),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", "MAP('a' := 1, 'b' := 2)"),
        area="map",
    ),
    Function(
        "MAP_KEYS",
        "The keys of a map.",
        never_growing(Overload("(values: map<K, V>) -> array<K>", keys_of)),
        ("MAP_KEYS(MAP('a' := 1))", "ARRAY['a']"),
        area="map",
    ),
    Function(
        "MAP_VALUES",
        "The values of a map.",
        never_growing(Overload("(values: map<K, V>) -> array<V>", values_of)),
        ("MAP_VALUES(MAP('a' := 1))", "ARRAY[1]"),
        area="map",
    ),
    Function(
        "MAP_UNION",
        "The entries of both maps; if both contain a key, the second map's value.",
        (Overload("(left: map<K, V>, right: map<K, V>) -> map<K, V>", union, NullRule.PASS),),
        ("MAP_UNION(MAP('a' := 1), MAP('a' := 2))", "MAP('a' := 2)"),
        area="map",
    ),
    Function(
        "FILTER",
        "The items of an array, or the entries of a map, for which a lambda is true.",
        never_growing(
            Overload("(list: array<T>, keep: lambda(T) -> boolean) -> array<T>", filter_array),
            Overload("(values: map<K, V>, keep: lambda(K, V) -> boolean) -> map<K, V>", filter_map),
        ),
        ("FILTER(ARRAY[1, 2, 3], x => x > 1)", "ARRAY[2, 3]"),
        area="lambda",
    ),
    Function(
        "TRANSFORM",
        "Applies a lambda to each item of an array, or two lambdas to the keys and the values of a map.",
        (
            Overload("(list: array<T>, change: lambda(T) -> R) -> array<R>", transform_array),
            Overload(
                "(values: map<K, V>, key: lambda(K, V) -> A, value: lambda(K, V) -> B) -> map<A, B>", transform_map
            ),
        ),
        ("TRANSFORM(ARRAY[1, 2], x => x * 10)", "ARRAY[10, 20]"),
        area="lambda",
    ),
    Function(
        "REDUCE",
        "Folds an array or a map: a lambda computes the next state from the state and each item or entry; "
        "null if the initial state is null.",
        (
            Overload("(list: array<T>, state: S, step: lambda(S, T) -> S) -> S", reduce_array, NullRule.PASS),
            Overload("(values: map<K, V>, state: S, step: lambda(S, K, V) -> S) -> S", reduce_map, NullRule.PASS),
        ),
        ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", "16"),
        area="lambda",
    ),
)
