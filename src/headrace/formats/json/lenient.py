"""JSON values to the chain's values, as lenient as ksqlDB.

Numbers may be text, fractions are truncated for integers, a text column takes any JSON value as its text, names match
in any case. A value that does not fit raises `Mismatch`; nothing overflows and nothing is rounded to fit a decimal.

The fast path uses numbers as orjson returns them. Where a float may have lost digits that the column needs, `Inexact`
requests the same document with every digit, for readers by the rules `EXACT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from headrace.formats.column_types import kind_name
from headrace.formats.java_numbers import WHOLE, parse_double
from headrace.formats.json.decoder import Find, Rules
from headrace.formats.primitives import PRIMITIVES, Convert, Mismatch
from headrace.schema import type_name

_EXACT_FLOAT = 2.0**53  # from here on a float no longer identifies one integer
_SHAPES = 1024  # number of different sets of names that are cached per object type


class Inexact(Exception):
    """A float where its exact digits matter."""


def lookup(names: Sequence[str]) -> Find:
    """A function that finds an object's values by name: by the exact one, or else in any case."""
    shapes: dict[tuple[str, ...], list[str | None]] = {}

    def find(value: dict[Any, Any]) -> Iterable[Any]:
        shape = tuple(value)
        keys = shapes.get(shape)
        if keys is None:
            keys = places(shape, names)
            if len(shapes) < _SHAPES:
                shapes[shape] = keys
        return map(value.get, keys)  # no object has the name None

    return find


def places(shape: Sequence[str], names: Sequence[str]) -> list[str | None]:
    """For each wanted name the matching one among the existing names."""
    exact = set(names)
    others = {name.upper(): name for name in shape if name not in exact}
    return [name if name in shape else others.get(name.upper()) for name in names]


# -- leaves ---------------------------------------------------------------------------------------------------------


def _boolean(kind: pa.DataType, exact: bool) -> Convert:
    return PRIMITIVES["boolean"](kind)


def _integer(kind: pa.DataType, exact: bool) -> Convert:
    expected = type_name(kind)
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1

    def convert(value: Any) -> int:
        number = value if type(value) is int else _cut(value, expected)
        if low <= number <= high:
            return number
        raise Mismatch(expected, value)

    return convert


def _cut(value: Any, expected: str) -> int:
    """The whole part of a number with a fraction, or of the number in a text."""
    if isinstance(value, float):
        if abs(value) >= _EXACT_FLOAT:
            raise Inexact
        return int(value)
    if isinstance(value, Decimal) and value.adjusted() < 20:  # a huge exponent would be expanded
        return int(value)
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    raise Mismatch(expected, value)


def _double(kind: pa.DataType, exact: bool) -> Convert:
    def convert(value: Any) -> float:
        if type(value) is float:
            return value
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return float(Decimal(value))  # through Decimal an enormous number becomes infinite instead of an error
        if isinstance(value, str) and (number := parse_double(value)) is not None:
            return number
        raise Mismatch("double", value)

    return convert


def _decimal(kind: pa.DataType, exact: bool) -> Convert:
    fit = PRIMITIVES["decimal"](kind)

    def convert(value: Any) -> Decimal:
        if isinstance(value, float):
            raise Inexact
        return fit(value.removeprefix("+") if isinstance(value, str) else value)

    return convert


def _string(kind: pa.DataType, exact: bool) -> Convert:
    def convert(value: Any) -> str:
        if type(value) is str:
            return value
        if not exact and not isinstance(value, int):  # True and False are ints too
            raise Inexact
        return _text(value)

    return convert


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"  # as in ksqlDB: texts inside are not quoted
    if isinstance(value, dict):
        return orjson.dumps(_numbers_kept(value)).decode()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _numbers_kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers_kept(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numbers_kept(inner) for inner in value]
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return orjson.Fragment(str(value)) if is_number else value


def _temporal(kind: pa.DataType, exact: bool) -> Convert:
    """Integers, also as text, as in ksqlDB; also ISO text, which headrace's JSON topics hold."""
    read = PRIMITIVES[kind_name(kind)](kind)

    def convert(value: Any) -> int:
        return read(int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value)

    return convert


def _null(kind: pa.DataType, exact: bool) -> Convert:
    return lambda value: None


_LEAVES: Mapping[str, Callable[[pa.DataType, bool], Convert]] = {
    "boolean": _boolean,
    "int": _integer,
    "bigint": _integer,
    "double": _double,
    "decimal": _decimal,
    "string": _string,
    "bytes": lambda kind, exact: PRIMITIVES["bytes"](kind),
    "date": _temporal,
    "time": _temporal,
    "timestamp": _temporal,
    "null": _null,
}


def _map(kind: pa.DataType, item: Convert) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch("map", value)
        items: dict[str, Any] = {}
        for k, v in value.items():
            try:
                items[k] = None if v is None else item(v)
            except Mismatch as error:
                error.path.append(f"[{k!r}]")
                raise
        return items

    return convert


FAST, EXACT = (
    Rules(lambda kind, exact=exact: _LEAVES[kind_name(kind)](kind, exact), _map, lookup) for exact in (False, True)
)
"""For documents as orjson reads them, and for documents with every digit."""
