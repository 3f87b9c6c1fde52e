"""Registry of all functions, by name in any case.

A module of this package declares functions in a tuple `FUNCTIONS` or `AGGREGATES` and is listed in `MODULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from headrace.errors import FunctionExists, UnknownFunction, suggestion
from headrace.plan.functions import table_functions
from headrace.plan.functions.aggregates import basic, by_offset, collect, statistics
from headrace.plan.functions.declaration import AggregateFunction, Function
from headrace.plan.functions.scalars import (
    arrays,
    binary,
    conditional,
    datetime,
    geo,
    json,
    maps,
    masks,
    math,
    regular_expressions,
    rounding,
    strings,
    substrings,
    urls,
)

MODULES = (
    basic,
    collect,
    by_offset,
    arrays,
    binary,
    conditional,
    geo,
    json,
    maps,
    masks,
    math,
    regular_expressions,
    rounding,
    statistics,
    strings,
    substrings,
    table_functions,
    datetime,
    urls,
)

Declared = TypeVar("Declared", Function, AggregateFunction)


def _by_name(functions: Iterable[Declared]) -> Mapping[str, Declared]:
    table: dict[str, Declared] = {}
    for function in functions:
        for name in (function.name, *function.aliases):
            if table.setdefault(name.upper(), function) is not function:
                raise TypeError(f"function {name} is declared twice")
    return table


_DECLARED = [f for module in MODULES for kind in ("FUNCTIONS", "AGGREGATES") for f in getattr(module, kind, ())]

_SCALARS: dict[str, Function] = dict(_by_name(f for f in _DECLARED if isinstance(f, Function)))
SCALARS: Mapping[str, Function] = _SCALARS
"""Scalar and table functions by all their names, in upper case."""

AGGREGATES: Mapping[str, AggregateFunction] = _by_name(f for f in _DECLARED if isinstance(f, AggregateFunction))


_BUILT_IN = frozenset((*SCALARS, *AGGREGATES))
_OWN: list[Function] = []
USER_FUNCTIONS: Sequence[Function] = _OWN
"""All functions that users ever declared: a plan keeps the one it was created with."""


def declare(function: Function, where: str | None = None) -> None:
    """Adds a user-defined function. It replaces one of the same name for later statements."""
    if (name := function.name.upper()) in _BUILT_IN:
        raise FunctionExists(f'function "{name}" already exists', where=where, fix="choose another name for yours")
    restore_user_functions([function])


def restore_user_functions(functions: Iterable[Function]) -> None:
    """Registers user-defined functions, replacing others of the same names."""
    for function in functions:
        _SCALARS[function.name.upper()] = function
        if all(function is not known for known in _OWN):
            _OWN.append(function)


def withdraw(functions: Iterable[Function]) -> None:
    """Removes functions for later statements."""
    for function in functions:
        if _SCALARS.get(name := function.name.upper()) is function:
            del _SCALARS[name]


def user_functions() -> list[Function]:
    """Returns the user-defined functions that are currently registered."""
    return [function for name, function in _SCALARS.items() if name not in _BUILT_IN]


def find(name: str) -> Function | AggregateFunction | None:
    """Returns the function of that name, or None."""
    return SCALARS.get(name.upper()) or AGGREGATES.get(name.upper())


def unknown_function(name: str) -> UnknownFunction:
    """Returns the error for a name that `find` does not know."""
    return UnknownFunction(
        f"Can't find any functions with the name '{name}'",
        fix=suggestion(name, [*SCALARS, *AGGREGATES], "LIST FUNCTIONS shows all functions"),
    )
