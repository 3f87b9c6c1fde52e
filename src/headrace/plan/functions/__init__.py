"""Every function of the plan, found by name in any case.

A module of this room declares functions in a tuple `FUNCTIONS` or `AGGREGATES`; it takes part by standing in `MODULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from headrace.errors import UnknownFunction
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

SCALARS: Mapping[str, Function] = _by_name(f for f in _DECLARED if isinstance(f, Function))
"""Scalar and table functions by every name they have, in upper case."""

AGGREGATES: Mapping[str, AggregateFunction] = _by_name(f for f in _DECLARED if isinstance(f, AggregateFunction))


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
