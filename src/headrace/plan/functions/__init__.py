"""Every function of the plan, found by name in any case.

A module of this room declares functions in a tuple `FUNCTIONS` or `AGGREGATES`; it takes part by standing in `MODULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from headrace.errors import FunctionExists, UnknownFunction
from headrace.plan.functions import (
    aggregates,
    aggregates_collect,
    aggregates_offset,
    arrays,
    binary,
    choice,
    geo,
    json_text,
    maps,
    masks,
    math,
    regular_expressions,
    rounding,
    statistics,
    strings,
    substrings,
    tables,
    temporal,
    urls,
)
from headrace.plan.functions.declare import AggregateFunction, Function

MODULES = (
    aggregates,
    aggregates_collect,
    aggregates_offset,
    arrays,
    binary,
    choice,
    geo,
    json_text,
    maps,
    masks,
    math,
    regular_expressions,
    rounding,
    statistics,
    strings,
    substrings,
    tables,
    temporal,
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
"""Scalar and table functions by every name they have, in upper case."""

AGGREGATES: Mapping[str, AggregateFunction] = _by_name(f for f in _DECLARED if isinstance(f, AggregateFunction))


_BUILT_IN = frozenset((*SCALARS, *AGGREGATES))
_OWN: list[Function] = []
OWN: Sequence[Function] = _OWN
"""All that users ever declared: a plan keeps the one that it was made with."""


def declare(function: Function, where: str | None = None) -> None:
    """Add a user's own function. One of his that has the name already makes way, for statements still to come."""
    if (name := function.name.upper()) in _BUILT_IN:
        raise FunctionExists(f'there is a function "{name}" already', where=where, fix="give yours another name")
    adopt([function])


def adopt(functions: Iterable[Function]) -> None:
    """Have these of users' own in place of others of their names."""
    for function in functions:
        _SCALARS[function.name.upper()] = function
        if all(function is not known for known in _OWN):
            _OWN.append(function)


def withdraw(functions: Iterable[Function]) -> None:
    """Let statements still to come have these no longer."""
    for function in functions:
        if _SCALARS.get(name := function.name.upper()) is function:
            del _SCALARS[name]


def own() -> list[Function]:
    """Those of users' own that have their names now."""
    return [function for name, function in _SCALARS.items() if name not in _BUILT_IN]


def find(name: str) -> Function | AggregateFunction | None:
    """The function of that name, or None."""
    return SCALARS.get(name.upper()) or AGGREGATES.get(name.upper())


def unknown(name: str) -> UnknownFunction:
    """The error for a name that `find` does not know."""
    close = get_close_matches(name.upper(), [*SCALARS, *AGGREGATES], n=1)
    return UnknownFunction(
        f"Can't find any functions with the name '{name}'",
        fix=f"did you mean {close[0]}?" if close else "LIST FUNCTIONS shows all there are",
    )
