"""A plan on its way to Spark's workers.

A plan is plain values but for the functions it calls and the operators it uses. Those travel as their names, so that a
worker runs what it has itself, compiled once, and not a copy. Whose names they are, the setup of the plan says: what it
declares is in place while the plan is unpacked, and the plan keeps it.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from headrace.plan.functions import AGGREGATES, OWN, SCALARS
from headrace.plan.functions.declare import AggregateFunction, AggregateOverload, Function, Overload
from headrace.plan.operators import OPERATORS, OperatorKind

_TABLES: Mapping[str, Mapping[str, Function | AggregateFunction]] = {"scalar": SCALARS, "aggregate": AGGREGATES}
_KINDS = {Overload: "scalar", AggregateOverload: "aggregate"}

Reference = tuple[str, str, int]
"""Scalar, aggregate or operator, its name, and which of its overloads."""


def packed(plan: Any) -> bytes:
    """A query, or a part of one."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(plan)
    return buffer.getvalue()


def unpacked(data: bytes) -> Any:
    return _Unpacker(io.BytesIO(data)).load()


Setup = Callable[[], None]


def no_setup() -> None:
    """No functions beside the declared ones."""


@lru_cache(64)
def shipped(data: bytes, setup: Setup = no_setup) -> Any:
    """In a worker: a query as it came; `setup` runs first, to declare functions of the user's own."""
    with _UNPACKING:  # another plan may have another function of the same name
        setup()
        return unpacked(data)


_UNPACKING = threading.Lock()


class _Packer(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Reference | None:
        if isinstance(obj, OperatorKind) and not obj.is_ours:
            return ("operator", obj.name, 0)
        kind = _KINDS.get(type(obj))
        return None if kind is None else _reference(kind, obj)


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Overload | AggregateOverload | OperatorKind:
        kind, name, number = pid
        if kind == "operator":
            return OPERATORS[name]
        return _TABLES[kind][name].overloads[number]


def _reference(kind: str, overload: Any) -> Reference:
    found = _references(kind, len(_TABLES[kind]), len(OWN)).get(id(overload))
    if found is None:
        raise LookupError(f"{overload.signature} belongs to no declared function")
    return found


@lru_cache(4)
def _references(kind: str, size: int, declared: int) -> dict[int, Reference]:
    """Where each overload is declared, those that have lost their names too; asked anew when some have been added."""
    del size, declared
    named = [*_TABLES[kind].items(), *((function.name.upper(), function) for function in OWN)]
    return {
        id(overload): (kind, name, number)
        for name, function in named
        for number, overload in enumerate(function.overloads)
    }
