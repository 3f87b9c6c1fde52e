"""Columns and rows of the chain's values, for property tests."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.schema import PRIMITIVES, Field

_WIDE = Context(prec=100)
KINDS = {name: kind for name, kind in PRIMITIVES.items() if name != "float"}
LEAVES = st.one_of(
    st.sampled_from(list(KINDS.values())),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s))),
    st.just(pa.decimal256(76, 20)),
)
TEXT_KEYS = st.just(pa.string())
MAP_KEYS = st.sampled_from([KINDS["string"], KINDS["int"], KINDS["bigint"], KINDS["date"], pa.decimal128(5, 2)])


def structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    names = st.lists(st.sampled_from(["A", "B", "c", "D_E"]), min_size=1, max_size=3, unique_by=str.upper)
    return names.flatmap(lambda ns: st.tuples(*[inner.map(lambda k, n=n: pa.field(n, k)) for n in ns])).map(
        lambda fields: pa.struct(list(fields))
    )


def types(keys: st.SearchStrategy[pa.DataType], *, items: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Types of any depth, whose maps have keys of these types; `items`: also arrays and maps right inside arrays."""

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        within = inner if items else inner.filter(lambda k: not (pa.types.is_list(k) or pa.types.is_map(k)))
        return st.one_of(within.map(pa.list_), structs(inner), st.builds(pa.map_, keys, inner))

    return st.recursive(LEAVES, nested, max_leaves=4)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.none() | present(kind)


def present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    if pa.types.is_map(kind):
        return st.dictionaries(present(kind.key_type), values(kind.item_type), max_size=3)
    if pa.types.is_decimal(kind):
        limit = 10**kind.precision - 1
        return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-kind.scale, _WIDE))
    return _LEAVES[kind]


_LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    KINDS["boolean"]: st.booleans(),
    KINDS["int"]: st.integers(-(2**31), 2**31 - 1),
    KINDS["bigint"]: st.integers(-(2**63), 2**63 - 1),
    KINDS["double"]: st.floats(allow_nan=False),
    KINDS["string"]: st.text(max_size=8) | st.text('",;\t\n\r #-_ a0', max_size=5),
    KINDS["bytes"]: st.binary(max_size=8),
    KINDS["date"]: st.integers(-700_000, 2_900_000),
    KINDS["time"]: st.integers(0, 86_399_999),
    KINDS["timestamp"]: st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 3 * 10**14),
}


@st.composite
def tables(
    draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType], most: int = 4
) -> tuple[list[Field], tuple[Any, ...]]:
    """Columns and a row of them."""
    names = draw(st.lists(st.sampled_from(["A", "B", "C", "d", "E_F", "_g"]), min_size=1, max_size=most, unique=True))
    columns = [Field(name, draw(kinds)) for name in names]
    return columns, tuple(draw(values(column.type)) for column in columns)


def proto_like(value: Any, kind: pa.DataType, *, nullable: bool) -> Any:
    """What Protobuf leaves of a value: it has no null for lists, for maps and for scalars without presence."""
    if pa.types.is_list(kind):
        return [proto_like(v, kind.value_type, nullable=nullable) for v in value or []]
    if pa.types.is_map(kind):
        return {k: proto_like(v, kind.item_type, nullable=nullable) for k, v in (value or {}).items()}
    if pa.types.is_struct(kind) and value is not None:
        return {f.name: proto_like(value[f.name], f.type, nullable=nullable) for f in kind}
    return _DEFAULTS.get(kind) if value is None and not nullable else value


def has_null_item(value: Any) -> bool:
    """Whether a list somewhere inside holds null."""
    if isinstance(value, dict):
        return any(map(has_null_item, value.values()))
    return isinstance(value, list) and (None in value or any(map(has_null_item, value)))


_DEFAULTS = {
    KINDS["boolean"]: False,
    KINDS["int"]: 0,
    KINDS["bigint"]: 0,
    KINDS["double"]: 0.0,
    KINDS["string"]: "",
    KINDS["bytes"]: b"",
}
