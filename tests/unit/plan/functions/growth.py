"""Calls functions with arguments that may make their results large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import singledispatch
from itertools import product
from math import prod
from random import Random
from sys import getsizeof
from typing import Any

from headrace.plan import types
from headrace.plan.functions.declaration import Function, Overload
from headrace.plan.functions.signature import Parameter, parse_signature
from headrace.plan.functions.type_patterns import (
    AnyDecimal,
    AnyType,
    AnyUnit,
    ArrayOf,
    ExactType,
    LambdaOf,
    MapOf,
    Pattern,
    TypeVariable,
)

N = 20_000
"""The size of large arguments."""
SLACK = 16_384
"""Bytes that a result of any call may have."""
MAX_FACTOR = 4
"""How many times the size of its arguments the result of a function may have that never grows."""

_TEXTS: tuple[str, ...] = (
    "a" * N,
    "ß" * N,
    "%C3%9F" * (N // 6),
    "a," * (N // 2),
    "1 Ab\x01é" * (N // 6),
    '["' + "a" * N + '"]',
    f"[{'1,' * N}1]",
    '{"a":' + "[1]" * 1 + ',"b":"' + "\\u0001" * (N // 6) + '"}',
    "https://a.org/?a=" + "%41" * (N // 3) + "#" + "b" * N,
    "$.b",
    "a",
    ",",
    "",
    "hex",
    "utf8",
    "base64",
    "yyyy-MM-dd HH:mm:ss zzzz",
    "Europe/Berlin",
)
_PLAIN: Mapping[Any, tuple[Any, ...]] = {
    types.STRING: _TEXTS,
    types.BYTES: (b"a" * N, b",", b"\xff" * N, bytes(16)),
    types.BOOLEAN: (True, False),
    types.DOUBLE: (float(N), 1.0),
}
_MOST = 100
"""Calls of one overload."""
_NUMBERS = (N, 1, -N)


@singledispatch
def values(pattern: Pattern) -> tuple[Any, ...]:
    """Small and large values of a type."""
    raise NotImplementedError(type(pattern).__name__)


@values.register
def _(pattern: ExactType) -> tuple[Any, ...]:
    return _PLAIN.get(pattern.type, _NUMBERS)


@values.register
def _(pattern: TypeVariable | AnyType) -> tuple[Any, ...]:
    return "a" * N, "b"


@values.register
def _(pattern: AnyDecimal) -> tuple[Any, ...]:
    return (Decimal("1.25"),)


@values.register
def _(pattern: AnyUnit) -> tuple[Any, ...]:
    return ("DAY",)


@values.register
def _(pattern: ArrayOf) -> tuple[Any, ...]:
    first = values(pattern.item)[0]
    return [first] * 100, [f"{n}" for n in range(N)] if isinstance(first, str) else [first] * N


@values.register
def _(pattern: MapOf) -> tuple[Any, ...]:
    item = values(pattern.value)[0]
    return {"k" * N: item, "l": item}, {f"k{n}": item for n in range(N // 10)}


@values.register
def _(pattern: LambdaOf) -> tuple[Callable[..., Any], ...]:
    return (lambda *given: True,) if str(pattern.result) == "BOOLEAN" else (lambda *given: "a" * N,)


def calls(overload: Overload) -> Iterator[tuple[int, int]]:
    """Sizes of the arguments and of the result of every call that succeeds."""
    signature = parse_signature(overload.signature)
    parameters = [one for one in signature.parameters for _ in range(2 if one.variadic else 1)]
    python = overload.python(list(map(_type, parameters))) if overload.typed else overload.python
    for arguments in _combined([values(parameter.pattern) for parameter in parameters]):
        try:
            result = python(*arguments)
        except Exception:
            continue
        yield size(list(arguments)), size(result)


def _combined(choices: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """All combinations, or some of them if there are too many: the same ones each time."""
    if prod(map(len, choices)) <= _MOST:
        yield from product(*choices)
        return
    chance = Random(0)
    for _ in range(_MOST):
        yield tuple(map(chance.choice, choices))


def _type(parameter: Parameter) -> Any:
    return parameter.pattern.fill({**dict.fromkeys("ABKRSTV", types.STRING), "decimal": types.decimal(10, 2)})


def grows(overload: Overload) -> bool:
    """Whether the result of a call is much larger than its arguments."""
    return any(made > MAX_FACTOR * given + SLACK for given, made in calls(overload))


def can_create(function: Function, overload: Overload) -> bool:
    """Whether its results have no fixed size."""
    pattern = parse_signature(overload.signature).result
    return function.table or str(pattern) not in {"INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIME", "TIMESTAMP"}


def size(value: Any) -> int:
    """Bytes of a value with everything inside it."""
    inner: list[Any] = value if isinstance(value, list) else []
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    return getsizeof(value) + sum(map(size, inner))
