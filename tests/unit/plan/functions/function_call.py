"""Calls a scalar function as the chain does: the overload by the arguments' types, then nulls, then the Python form."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.plan import types
from headrace.plan.functions import SCALARS
from headrace.plan.functions.declaration import NullRule
from headrace.plan.functions.signature import resolve

_TYPES = {bool: types.BOOLEAN, int: types.INT, float: types.DOUBLE, str: types.STRING, bytes: types.BYTES}


def type_of(value: Any) -> pa.DataType:
    if value is None:
        return types.NULL
    if isinstance(value, Decimal):
        digits = value.as_tuple()
        return types.decimal(max(len(digits.digits), -int(digits.exponent)), -int(digits.exponent))
    return _TYPES[type(value)]


def run(name: str, *values: Any, kinds: list[pa.DataType] | None = None) -> Any:
    """The result; what the function raises comes through."""
    resolved = resolve(SCALARS[name], kinds or [type_of(value) for value in values])
    overload = resolved.overload
    if overload.nulls is NullRule.PROPAGATE and None in values:
        return None
    python = overload.python(resolved.arguments) if overload.typed else overload.python
    return python(*values)
