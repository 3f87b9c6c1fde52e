"""Content filters: select which rows of a topic a consumer gets.

`header_filter` matches headers; `filter_expression` takes a condition in the language of `filter_parser`. In a typed
topic a path begins with a column; in a raw topic with `value` (its text, or, with steps behind it, the JSON document in
it) or `key` (text). Both know `headers.NAME` and the log's own `timestamp`, `offset`, `sequence`, `occurred_at`,
`sent_at` and `received_at`; a column of the same name takes precedence.

Null is as in SQL: a comparison with null, or with a value of another kind, does not match. Numbers are compared as
floats unless both are integers or one is a decimal. Plain columns are compared by vectorized Arrow kernels; where that
is not possible, value by value, with the same result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, DecimalException
from functools import cached_property
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Filter
from headrace.errors import BadFilter
from headrace.formats.json.strict import from_json
from headrace.formats.primitives import Mismatch
from headrace.formats.values import valid_texts, values_of
from headrace.log.filter_parser import ARITHMETIC, Binary, In, IsNull, Like, Literal, Node, Not, Path, parse_filter
from headrace.schema import type_name

_OWN = ("timestamp", "offset", "sequence", "occurred_at", "sent_at", "received_at")


def header_filter(wanted: Mapping[str, str | bytes]) -> Filter:
    """Rows that have all these headers with these values; of several headers with one name the last counts."""
    pairs = {name: value.encode() if isinstance(value, str) else value for name, value in wanted.items()}

    def matches(rows: pa.RecordBatch) -> pa.Array:
        mask = pa.array(np.ones(rows.num_rows, np.bool_))
        for name, value in pairs.items():
            mask = pc.and_(mask, pc.fill_null(pc.equal(last_header(rows, name), pa.scalar(value, pa.binary())), False))
        return mask

    return matches


def filter_expression(text: str) -> Filter:
    """Rows for which the condition is true."""
    condition = parse_filter(text)

    def matches(rows: pa.RecordBatch) -> pa.Array:
        columns = _Columns(rows, text)
        bound = _bind(condition, columns)
        try:
            mask = _at_once(bound, columns)
            if not isinstance(mask, pa.Array):
                raise _ValueByValue
        except (_ValueByValue, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
            mask = pa.array([v is True for v in _by_value(bound, columns)], pa.bool_())
        return pc.fill_null(mask, False)

    return matches


def last_header(rows: pa.RecordBatch, name: str) -> pa.BinaryArray:
    """Each row's last header with that name."""
    if "$headers" not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.binary())
    headers = rows.column("$headers")
    flat = headers.flatten()
    places = np.flatnonzero(pc.equal(flat.field("name"), name).to_numpy(zero_copy_only=False) == True)  # noqa: E712
    last = np.full(rows.num_rows, -1, np.int64)
    last[pc.list_parent_indices(headers).to_numpy()[places]] = places  # of several headers the last assignment wins
    return flat.field("value").take(pa.array(last, mask=last < 0))


class _ValueByValue(Exception):
    """Arrow has no kernel with the same meaning: evaluate value by value."""


class _Columns:
    """The rows as paths address them."""

    def __init__(self, rows: pa.RecordBatch, text: str) -> None:
        self.rows = rows
        self.text = text
        self.names = [n for n in rows.schema.names if not n.startswith("$")]
        self.raw = self.names == ["key", "value"] and all(
            pa.types.is_binary(rows.schema.field(n).type) for n in self.names
        )

    def column(self, path: Path) -> pa.Array:
        """The column at a path's root; bytes as text."""
        if path.root in self.names:
            found = self.rows.column(path.root)
        elif path.root == "headers" and len(path.steps) == 1 and isinstance(path.steps[0], str):
            found = last_header(self.rows, path.steps[0])
        elif path.root in _OWN and not path.steps:
            name = f"${path.root}"
            here = name in self.rows.schema.names
            found = self.rows.column(name) if here else pa.nulls(len(self.rows), pa.int64())
        else:
            raise self._unknown(path)
        return valid_texts(found)[0] if pa.types.is_binary(found.type) else found

    def in_document(self, path: Path) -> bool:
        """Whether the path leads into the JSON value of a raw topic."""
        return self.raw and path.root == "value" and bool(path.steps)

    def inner_steps(self, path: Path) -> tuple[str | int, ...]:
        return () if path.root == "headers" and path.root not in self.names else path.steps

    @cached_property
    def documents(self) -> list[Any]:
        """The values of a raw topic as JSON; None where a value is not JSON."""
        return [_document(value) for value in self.rows.column("value").to_pylist()]

    def kind(self, path: Path) -> pa.DataType:
        """The type at a path in a typed topic; raises if the path does not exist."""
        kind = self.column(path).type
        for step in self.inner_steps(path):
            if pa.types.is_struct(kind) and isinstance(step, str) and kind.get_field_index(step) >= 0:
                kind = kind.field(step).type
            elif pa.types.is_list(kind) and isinstance(step, int):
                kind = kind.value_type
            elif pa.types.is_map(kind):
                kind = kind.item_type
            else:
                raise self.error(path, f'"{path}": there is no {step!r} in {type_name(kind)}', "see the topic's schema")
        return kind

    def _unknown(self, path: Path) -> BadFilter:
        if self.raw:
            fix = f'write "value.{path}" for a field of the JSON value'
        else:
            fix = f"columns are: {', '.join(self.names)}; also headers.NAME, {', '.join(_OWN)}"
        return self.error(path, f'column "{path}" does not exist', fix)

    def error(self, path: Path, what: str, fix: str) -> BadFilter:
        return BadFilter(what, where=f"column {path.column} of: {self.text}", fix=fix)


def _document(value: bytes | None) -> Any:
    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


# -- binding: checks paths, converts texts that are compared with dates and times -------------------------------------


def _bind(node: Node, columns: _Columns) -> Node:
    match node:
        case Path():
            if not columns.in_document(node):
                columns.kind(node)
            return node
        case Binary(op, left, right):
            left, right = _bind(left, columns), _bind(right, columns)
            return Binary(op, _moment(left, right, columns), _moment(right, left, columns))
        case In(of, choices):
            return In(_bind(of, columns), tuple(_moment(c, of, columns) for c in choices))  # pyright: ignore
        case Not(of) | IsNull(of) | Like(of):
            return replace(node, of=_bind(of, columns))
    return node


def _moment(node: Node, other: Node, columns: _Columns) -> Node:
    if not (isinstance(node, Literal) and isinstance(node.value, str) and isinstance(other, Path)):
        return node
    if columns.in_document(other) or not pa.types.is_temporal(kind := columns.kind(other)):
        return node
    try:
        return Literal(from_json(kind)(node.value))
    except Mismatch as error:
        fix = 'write it as in "2024-01-31", "12:30:00" or "2024-01-31T12:30:00Z"'
        raise columns.error(other, error.reason(str(other)), fix) from error


# -- vectorized -------------------------------------------------------------------------------------------------------

Vector = Any  # an Arrow array, or a scalar for a literal

_KERNELS: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
}
_OPERANDS = {"and": "boolean", "or": "boolean", "+": "number", "-": "number", "*": "number"}


def _at_once(node: Node, columns: _Columns) -> Vector:
    match node:
        case Literal(value) if value is not None:
            return pa.scalar(value)
        case Path():
            return _vector(node, columns)
        case Binary(op, left, right) if op in _KERNELS:
            a, b = _at_once(left, columns), _at_once(right, columns)
            family = _OPERANDS.get(op) or _family(a)
            return _KERNELS[op](_of(family, a), _of(family, b))
        case Not(of):
            return pc.invert(_of("boolean", _at_once(of, columns)))
        case IsNull(of):
            return pc.is_null(_at_once(of, columns))
        case Like(of, pattern):
            return pc.match_like(_of("text", _at_once(of, columns)), pattern)
    raise _ValueByValue


def _vector(path: Path, columns: _Columns) -> pa.Array:
    if columns.in_document(path):
        raise _ValueByValue
    column = columns.column(path)
    for step in columns.inner_steps(path):
        if not pa.types.is_struct(column.type):
            raise _ValueByValue
        column = pc.struct_field(column, step)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        return column.cast(pa.int32())
    return column


def _family(vector: Vector) -> str:
    kind = vector.type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_string(kind):
        return "text"
    raise _ValueByValue


def _of(family: str, vector: Vector) -> Vector:
    if _family(vector) != family:
        raise _ValueByValue
    return vector


# -- value by value ---------------------------------------------------------------------------------------------------

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def _by_value(node: Node, columns: _Columns) -> list[Any]:
    match node:
        case Literal(value):
            return [value] * columns.rows.num_rows
        case Path():
            return _values(node, columns)
        case Binary(op, left, right):
            apply = _LOGIC.get(op) or _operation(op)
            return list(map(apply, _by_value(left, columns), _by_value(right, columns)))
        case Not(of):
            return [not v if isinstance(v, bool) else None for v in _by_value(of, columns)]
        case IsNull(of):
            return [v is None for v in _by_value(of, columns)]
        case In(of, choices):
            return [_is_in(v, choices) for v in _by_value(of, columns)]
        case Like(of, pattern):
            texts = [v if isinstance(v, str) else None for v in _by_value(of, columns)]
            return pc.match_like(pa.array(texts, pa.string()), pattern).to_pylist()


def _and(a: Any, b: Any) -> bool | None:
    if a is False or b is False:
        return False
    return True if a is True and b is True else None


def _or(a: Any, b: Any) -> bool | None:
    if a is True or b is True:
        return True
    return False if a is False and b is False else None


_LOGIC: dict[str, Callable[[Any, Any], bool | None]] = {"and": _and, "or": _or}


def _operation(op: str) -> Callable[[Any, Any], Any]:
    apply, of_numbers = _OPERATORS[op], op in ARITHMETIC

    def operation(a: Any, b: Any) -> Any:
        if _is_number(a) and _is_number(b):
            try:
                return apply(*_alike(a, b))
            except (ArithmeticError, DecimalException):
                return None
        alike = type(a) is type(b) and isinstance(a, str | bool)
        return apply(a, b) if alike and not of_numbers else None

    return operation


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return _as_decimal(a), _as_decimal(b)
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def _as_decimal(number: Any) -> Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def _is_in(value: Any, choices: tuple[Literal, ...]) -> bool | None:
    found = [_operation("=")(value, choice.value) for choice in choices]
    return True if True in found else None if None in found else False


def _values(path: Path, columns: _Columns) -> list[Any]:
    values = columns.documents if columns.in_document(path) else values_of(columns.column(path))
    for step in columns.inner_steps(path):
        values = [_inside(value, step) for value in values]
    return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in values]


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # an Arrow map
        return next((v for k, v in value if k == step), None)
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if step < len(value) else None
    return None
