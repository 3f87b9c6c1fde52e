"""Serializes plans for Spark's workers.

A plan consists of plain values, except for the functions it calls and the operators it uses. Those are sent as names,
so that a worker runs its own compiled copy. The plan's setup says whose names they are: its declarations are in place
while the plan is deserialized, and the plan keeps them.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from headrace.plan.functions import AGGREGATES, SCALARS, USER_FUNCTIONS
from headrace.plan.functions.declaration import AggregateFunction, AggregateOverload, Function, Overload
from headrace.plan.operators import OPERATORS, OperatorDefinition

_TABLES: Mapping[str, Mapping[str, Function | AggregateFunction]] = {"scalar": SCALARS, "aggregate": AGGREGATES}
_KINDS = {Overload: "scalar", AggregateOverload: "aggregate"}

Reference = tuple[str, str, int]
"""Scalar, aggregate or operator; its name; and the index of its overload."""


def serialize_plan(plan: Any) -> bytes:
    """Serializes a query, or a part of one."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(plan)
    return buffer.getvalue()


def deserialize_plan(data: bytes) -> Any:
    return _Unpacker(io.BytesIO(data)).load()


Setup = Callable[[], None]


def no_setup() -> None:
    """Declares no further functions."""


@lru_cache(64)
def load_plan(data: bytes, setup: Setup = no_setup) -> Any:
    """In a worker: deserializes a query; `setup` runs first, to declare the user's functions."""
    with _UNPACKING:  # another plan may have another function of the same name
        setup()
        return deserialize_plan(data)


_UNPACKING = threading.Lock()


class _Packer(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Reference | None:
        if isinstance(obj, OperatorDefinition) and not obj.is_ours:
            return ("operator", obj.name, 0)
        kind = _KINDS.get(type(obj))
        return None if kind is None else _reference(kind, obj)


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Overload | AggregateOverload | OperatorDefinition:
        kind, name, number = pid
        if kind == "operator":
            return OPERATORS[name]
        return _TABLES[kind][name].overloads[number]


def _reference(kind: str, overload: Any) -> Reference:
    reference = _references(kind, len(_TABLES[kind]), len(USER_FUNCTIONS)).get(id(overload))
    if reference is None:
        raise LookupError(f"{overload.signature} belongs to no declared function")
    return reference


@lru_cache(4)
def _references(kind: str, size: int, declared: int) -> dict[int, Reference]:
    """Where each overload is declared, even if its name was redeclared; recomputed when some are added."""
    del size, declared
    named = [*_TABLES[kind].items(), *((function.name.upper(), function) for function in USER_FUNCTIONS)]
    return {
        id(overload): (kind, name, number)
        for name, function in named
        for number, overload in enumerate(function.overloads)
    }
