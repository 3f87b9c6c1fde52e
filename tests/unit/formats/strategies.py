"""Schemas and rows of every type, for property tests."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.formats.values import column_of, values_of
from headrace.schema import PRIMITIVES, Field, Schema

_WIDE = Context(prec=80)
TEXT = st.text(max_size=8)
FLOAT32 = st.floats(width=32)

PRIMITIVE_TYPES = st.one_of(
    st.sampled_from(list(PRIMITIVES.values())),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s))),
)


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([pa.field(f"f{i}", k) for i, k in enumerate(kinds)])
    )


TYPES = st.recursive(
    PRIMITIVE_TYPES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        _structs(inner),
        st.builds(pa.map_, PRIMITIVE_TYPES.filter(lambda k: k != pa.bool_()), inner),
    ),
    max_leaves=4,
)


def inside(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type in their inside form."""
    return st.none() | present(kind)


def present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return st.lists(inside(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: inside(f.type) for f in kind})
    if pa.types.is_map(kind):
        keys = present(kind.key_type).filter(lambda k: k == k)
        return st.lists(st.tuples(keys, inside(kind.item_type)), max_size=3, unique_by=lambda pair: repr(pair[0]))
    if pa.types.is_decimal(kind):
        limit = 10**kind.precision - 1
        return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-kind.scale, _WIDE))
    return _LEAVES[kind]


_LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    PRIMITIVES["boolean"]: st.booleans(),
    PRIMITIVES["int"]: st.integers(-(2**31), 2**31 - 1),
    PRIMITIVES["bigint"]: st.integers(-(2**63), 2**63 - 1),
    PRIMITIVES["float"]: FLOAT32,
    PRIMITIVES["double"]: st.floats(),
    PRIMITIVES["string"]: TEXT,
    PRIMITIVES["bytes"]: st.binary(max_size=8),
    PRIMITIVES["date"]: st.integers(-(2**31), 2**31 - 1) | st.integers(-800_000, 3_000_000),
    PRIMITIVES["time"]: st.integers(0, 86_399_999),
    PRIMITIVES["timestamp"]: st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 3 * 10**14),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, pa.RecordBatch]:
    """A schema and rows that fit it."""
    kinds = draw(st.lists(TYPES, min_size=1, max_size=4))
    schema = Schema(tuple(Field(f"c{i}", kind) for i, kind in enumerate(kinds)))
    count = draw(st.integers(0, 4))
    columns = [column_of(draw(st.lists(inside(k), min_size=count, max_size=count)), k) for k in kinds]
    return schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def same(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Equal rows, where NaN is equal to itself."""
    return left.schema == right.schema and all(
        repr(values_of(a)).replace("-0.0", "0.0") == repr(values_of(b)).replace("-0.0", "0.0")
        for a, b in zip(left.columns, right.columns, strict=True)
    )
