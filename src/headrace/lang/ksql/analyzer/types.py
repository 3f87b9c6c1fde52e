"""Converts KSQL types to types of the plan."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.errors import BadType, suggestion
from headrace.lang.ksql import ast
from headrace.plan import types as t

PRIMITIVES: Mapping[str, pa.DataType] = {
    "BOOLEAN": t.BOOLEAN,
    "INT": t.INT,
    "INTEGER": t.INT,
    "BIGINT": t.BIGINT,
    "DOUBLE": t.DOUBLE,
    "STRING": t.STRING,
    "VARCHAR": t.STRING,
    "BYTES": t.BYTES,
    "DATE": t.DATE,
    "TIME": t.TIME,
    "TIMESTAMP": t.TIMESTAMP,
}
_OTHERS = {
    **dict.fromkeys(("LONG", "INT8", "INT64"), "write BIGINT"),
    **dict.fromkeys(("SHORT", "SMALLINT", "TINYINT", "INT4", "INT32"), "write INT"),
    **dict.fromkeys(("FLOAT", "FLOAT4", "FLOAT8", "REAL"), "write DOUBLE"),
    **dict.fromkeys(("TEXT", "CHAR", "NVARCHAR", "UUID"), "write STRING"),
    **dict.fromkeys(("NUMERIC", "NUMBER"), "write DECIMAL(precision, scale)"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), "write TIMESTAMP"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BLOB", "BYTEA"), "write BYTES"),
    **dict.fromkeys(("JSON", "JSONB"), "write STRING, or STRUCT<...> with its fields"),
}
"""What the types of other databases are called here."""
_TYPES = f"types are {', '.join(PRIMITIVES)}, DECIMAL(p, s), ARRAY<...>, MAP<...>, STRUCT<...>, or those of CREATE TYPE"


def plan_type(node: ast.Type, user_types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Returns the plan's type; `user_types` are the types of CREATE TYPE."""
    if isinstance(node, ast.ArrayType):
        return t.array(plan_type(node.item, user_types))
    if isinstance(node, ast.MapType):
        return t.map_of(plan_type(node.key, user_types), plan_type(node.value, user_types))
    if isinstance(node, ast.StructType):
        return _struct(node, user_types)
    return _type_by_name(node, user_types)


def _struct(node: ast.StructType, user_types: Mapping[str, pa.DataType]) -> pa.DataType:
    names = [name for name, _ in node.fields]
    for name in names:
        if names.count(name) > 1:
            raise BadType(f'field "{name}" appears twice in a STRUCT', span=node.span, fix="rename one of them")
    return t.struct((name, plan_type(inner, user_types)) for name, inner in node.fields)


def _type_by_name(node: ast.TypeName, user_types: Mapping[str, pa.DataType]) -> pa.DataType:
    if node.name == "DECIMAL" and not node.quoted:
        return _decimal(node)
    if not node.quoted and node.name in PRIMITIVES:
        return PRIMITIVES[node.name]
    if node.name in user_types:
        return user_types[node.name]
    fix = suggestion(node.name, {*PRIMITIVES, "DECIMAL", "ARRAY", "MAP", "STRUCT", *user_types}, _TYPES)
    raise BadType(f'there is no type "{node.name}"', span=node.span, fix=_OTHERS.get(node.name, fix))


def _decimal(node: ast.TypeName) -> pa.DataType:
    precision, scale = (*node.parameters, 0)[:2] if node.parameters else (0, 0)
    if not (0 < precision <= t.MAX_PRECISION and 0 <= scale <= precision):
        raise BadType(
            f"DECIMAL{node.parameters or '()'} is not a valid type",
            span=node.span,
            fix=f"write DECIMAL(precision, scale) with precision 1 to {t.MAX_PRECISION} and scale 0 to precision",
        )
    return t.decimal(precision, scale)
