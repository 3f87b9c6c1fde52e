"""Reads and writes keys and values in the formats that Spark handles without Python: JSON, KAFKA and NONE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from headrace.engine.realtime.json_parser import ColumnStage, JsonDocument
from headrace.engine.realtime.json_values import is_readable, is_writable, quote_text, write_sql
from headrace.formats.column_types import kind_name
from headrace.plan.nodes import Source as SourceNode
from headrace.plan.relations import Format, Relation, payload
from headrace.schema import Field

_KEY, _VALUE = "key", "value"


def format_obstacles(form: Format, columns: Sequence[Field], *, written: bool) -> Iterator[str]:
    """The obstacles to reading or writing these columns in this format."""
    if form.name not in _FORMATS:
        yield f"{form.name} is {'written' if written else 'read'} by Python alone"
        return
    fits, does = _FITS[form.name, written], "writes" if written else "reads"
    for field in columns:
        if not fits(field):
            yield f'column "{field.name}" is {kind_name(field.type)}, which Python alone {does} as {form.name}'


# -- reading --------------------------------------------------------------------------------------------------------


def decode_stages(source: SourceNode, secret: str) -> list[ColumnStage]:
    """Stages that produce k0 ..., v0 ..., and for both sides `_present` and `_fault`."""
    key, value = source.relation.key, payload(source.relation, source.system)
    return [
        *_side(source.key_format, key, _KEY, secret, bare=len(key) == 1),
        *_side(source.value_format, value, _VALUE, secret, bare=_is_bare(source.value_format, value)),
    ]


def _side(form: Format, columns: Sequence[Field], side: str, secret: str, *, bare: bool) -> list[ColumnStage]:
    name = "NONE" if side == _KEY and not columns else form.name
    return _FORMATS[name](columns, side, secret, bare)


def _is_bare(form: Format, columns: Sequence[Field]) -> bool:
    return len(columns) == 1 and not form.option("wrapped", True)


def _json(columns: Sequence[Field], side: str, secret: str, bare: bool) -> list[ColumnStage]:
    return JsonDocument(f"`{side}`", side, columns, bare, secret).stages()


def _kafka(columns: Sequence[Field], side: str, secret: str, bare: bool) -> list[ColumnStage]:
    """One column, big endian; without columns there is a row with no values."""
    present = {f"{side}_present": f"`{side}` is not null"}
    if not columns:
        return [{**present, f"{side}_fault": "cast(null as string)"}]
    name, kind = f"{side[0]}0", kind_name(columns[0].type)
    message = quote_text(f'column "{columns[0].name}": ')
    fault = f"concat({message}, octet_length(`{side}`), ' bytes are not a valid {kind}')"
    read = {name: _BIG_ENDIAN[kind].format(side=f"`{side}`")}
    return [read, {**present, f"{side}_fault": f"if(`{side}` is not null and {name} is null, {fault}, null)"}]


def _none(columns: Sequence[Field], side: str, secret: str, bare: bool) -> list[ColumnStage]:
    return [{f"{side}_present": "false", f"{side}_fault": "cast(null as string)"}]


_UNSIGNED = "try_cast(conv(substr(hex({side}), 1, 8), 16, 10) as bigint)"
_SIGNED = f"cast(if({_UNSIGNED} < 2147483648, {_UNSIGNED}, {_UNSIGNED} - 4294967296) as int)"
_BIG_ENDIAN: Mapping[str, str] = {
    "int": f"if(octet_length({{side}}) = 4, {_SIGNED}, null)",
    "bigint": "if(octet_length({side}) = 8, try_cast(conv(substr(hex({side}), 1, 16), 16, -10) as bigint), null)",
    "string": "if(is_valid_utf8(cast({side} as string)), cast({side} as string), null)",
    "bytes": "{side}",
}
_FORMATS: Mapping[str, Callable[[Sequence[Field], str, str, bool], list[ColumnStage]]] = {
    "JSON": _json,
    "KAFKA": _kafka,
    "NONE": _none,
}
_FITS: Mapping[tuple[str, bool], Callable[[Field], bool]] = {
    ("JSON", False): lambda field: is_readable(field.type),
    ("JSON", True): lambda field: is_writable(field.type),
    ("KAFKA", False): lambda field: kind_name(field.type) in _BIG_ENDIAN,
    ("KAFKA", True): lambda field: kind_name(field.type) in _BIG_ENDIAN,
    ("NONE", False): lambda field: False,
    ("NONE", True): lambda field: False,
}


# -- writing --------------------------------------------------------------------------------------------------------


def key_bytes(form: Format, relation: Relation) -> str:
    """The key of a row of the frame."""
    if not relation.key:
        return "cast(null as binary)"
    key = _WRITERS[form.name](relation.key, "k", len(relation.key) == 1)
    return f"if(keyed, {key}, null)"


def value_bytes(form: Format, relation: Relation) -> str:
    """The value of a row of the frame; null is a deletion."""
    value = _WRITERS[form.name](relation.value, "v", _is_bare(form, relation.value))
    return f"if(valued, {value}, null)"


def _json_bytes(columns: Sequence[Field], prefix: str, bare: bool) -> str:
    if bare:
        return f"if({prefix}0 is null, null, cast({write_sql(columns[0].type, f'{prefix}0')} as binary))"
    names = [f"{',' if i else ''}{orjson.dumps(field.name).decode()}:" for i, field in enumerate(columns)]
    cells = [
        f"{quote_text(name)}, {write_sql(field.type, f'{prefix}{i}')}"
        for i, (name, field) in enumerate(zip(names, columns, strict=True))
    ]
    return f"cast(concat('{{', {', '.join([*cells, ''])}'}}') as binary)"


def _kafka_bytes(columns: Sequence[Field], prefix: str, bare: bool) -> str:
    if not columns:
        return "cast('' as binary)"
    digits = {"int": 8, "bigint": 16}.get(kind_name(columns[0].type))
    return f"unhex(right(lpad(hex({prefix}0), 16, '0'), {digits}))" if digits else f"cast({prefix}0 as binary)"


_WRITERS: Mapping[str, Callable[[Sequence[Field], str, bool], str]] = {
    "JSON": _json_bytes,
    "KAFKA": _kafka_bytes,
    "NONE": lambda columns, prefix, bare: "cast(null as binary)",
}
