"""SQL expressions that read and write values in the realtime mode, where no Python function may run: one per type.

`read_sql` gets a value of a JSON document: its text, the text with all digits where Spark would round, and its kind by
Spark's name. It is null where the value does not fit, and where it is uncertain that the JSON serde would read the
same. `write_sql` gives the JSON text of a value, byte for byte as that serde does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa

from headrace.engine.sparksql.expressions import literal
from headrace.formats.column_types import kind_name
from headrace.plan import types as ty


def quote_text(text: str) -> str:
    """A string literal in SQL."""
    return literal(text, ty.STRING)


# -- from JSON ------------------------------------------------------------------------------------------------------

_KINDS = {
    "text": "{kind} = 'STRING'",
    "number": "({kind} in ('BIGINT', 'DOUBLE') or {kind} like 'DECIMAL%')",
    "fixed": "({kind} = 'BIGINT' or {kind} like 'DECIMAL%')",
    "truth": "{kind} = 'BOOLEAN'",
}
_WHOLE = r"^[+-]?[0-9]{1,40}$"
_INTEGER = r"^-?[0-9]+$"
_FRACTION = r"^(-?[0-9]+)\.[0-9]+$"
_DOUBLE = (
    r"^[\x00-\x20]*(?:[+-]?(?:NaN|Infinity)"
    r"|[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?[fFdD]?)[\x00-\x20]*$"
)
_DECIMAL = r"^-?[0-9]{1,400}(?:[.][0-9]{1,400})?$"
_BASE64 = r"^[A-Za-z0-9+/]*={0,2}$"


def read_sql(kind: pa.DataType, raw: str, exact: str, actual_kind: str) -> str:
    """The value of a column, from its text in the document and the kind that was found there."""
    words = {name: form.format(kind=actual_kind) for name, form in _KINDS.items()}
    return _READERS[kind_name(kind)](kind).format(raw=raw, exact=exact, **words)


def is_readable(kind: pa.DataType) -> bool:
    return kind_name(kind) in _READERS


def reads_digits(kind: pa.DataType) -> bool:
    """Whether the text with all digits is used."""
    return "{exact}" in _READERS[kind_name(kind)](kind)


def _like(pattern: str) -> str:
    """A pattern in a template."""
    return quote_text(pattern).replace("{", "{{").replace("}", "}}")


def _boolean(kind: pa.DataType) -> str:
    return "if({truth}, {raw} = 'true', null)"


def _whole(kind: pa.DataType) -> str:
    """Truncates a fraction. Null if a double may have rounded it, or is too large to be exact."""
    name = kind_name(kind)
    double, cut = "try_cast({raw} as double)", f"try_cast(regexp_extract({{exact}}, {_like(_FRACTION)}, 1) as bigint)"
    large, whole = f"abs({double}) >= 9007199254740992", f"try_cast({double} as bigint)"
    return (
        f"case when {{text}} then if({{raw}} rlike {_like(_WHOLE)}, try_cast({{raw}} as {name}), null)"
        f" when not {{number}} then null when {{exact}} rlike {_like(_INTEGER)} then try_cast({{exact}} as {name})"
        f" when {{exact}} rlike {_like(_FRACTION)} then if({large} or {whole} = {cut}, try_cast({cut} as {name}), null)"
        f" when not {large} then try_cast({whole} as {name}) end"
    )


def _double(kind: pa.DataType) -> str:
    bare = r"regexp_replace({raw}, '[\\x00-\\x20fFdD]+$|^[\\x00-\\x20]+', '')"
    return (
        f"case when {{text}} then if({{raw}} rlike {_like(_DOUBLE)}, try_cast({bare} as double), null)"
        " when {number} then if({raw} = '-0', 0D, try_cast({raw} as double)) end"
    )


def _decimal(kind: pa.DataType) -> str:
    """Rounds nothing; numbers with an exponent are not read."""
    fits = rf"^-?0*[0-9]{{0,{kind.precision - kind.scale}}}(?:\.[0-9]{{0,{kind.scale}}}0*)?$"
    number = "if({text} and {raw} like '+%', substr({raw}, 2), {exact})"
    shaped = f"{number} rlike {_like(_DECIMAL)} and {number} rlike {_like(fits)}"
    cast = f"try_cast({number} as decimal({kind.precision}, {kind.scale}))"
    return f"if(({{text}} or {{fixed}}) and {shaped}, {cast}, null)"


def _string(kind: pa.DataType) -> str:
    """Of numbers only integers: Spark's parser drops trailing zeros of a fraction."""
    whole = f"{{number}} and {{raw}} rlike {_like(_INTEGER)}"
    return f"case when {{text}} or {{truth}} then {{raw}} when {whole} then if({{raw}} = '-0', '0', {{raw}}) end"


def _bytes(kind: pa.DataType) -> str:
    shaped = f"length({{raw}}) % 4 = 0 and {{raw}} rlike {_like(_BASE64)}"
    return f"if({{text}} and {shaped}, try_to_binary({{raw}}, 'base64'), null)"


_READERS: Mapping[str, Callable[[pa.DataType], str]] = {
    "boolean": _boolean,
    "int": _whole,
    "bigint": _whole,
    "double": _double,
    "decimal": _decimal,
    "string": _string,
    "bytes": _bytes,
}


# -- to JSON --------------------------------------------------------------------------------------------------------

_SHORT = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
"""In this order: what one inserts is not changed by later ones."""


def write_sql(kind: pa.DataType, value: str) -> str:
    """The JSON text of a column; null becomes `null`."""
    return f"coalesce({_WRITERS[kind_name(kind)].format(value=value)}, 'null')"


def is_writable(kind: pa.DataType) -> bool:
    return kind_name(kind) in _WRITERS


def _text() -> str:
    """Few texts contain characters that must be escaped; in those every control character is replaced."""
    usual = reduce(lambda text, sign: f"replace({text}, {_sql(sign)}, {_sql(_SHORT[sign])})", _SHORT, "{value}")
    code = "concat('\\\\u00', lower(lpad(hex(x), 2, '0')))"
    escaped = f"aggregate(sequence(0, 31), {usual}, (made, x) -> replace(made, chr(x), {code}))"
    return f"concat('\"', if({{value}} rlike {_like(_ODD)}, {escaped}, {{value}}), '\"')"


def _sql(text: str) -> str:
    """Escapes control characters for SQL: the text of an expression is parsed several times."""
    return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 else _BACKSLASH.get(c, c) for c in text) + "'"


_ODD = r'[\x00-\x1f"\\]'
_BACKSLASH = {"\\": "\\\\"}
_NUMBER = "cast({value} as string)"
_DOUBLE_TEXT = (
    "if(isnan({value}) or abs({value}) = double('Infinity'), concat('\"', cast({value} as string), '\"'),"
    " cast({value} as string))"
)

_WRITERS: Mapping[str, str] = {
    **dict.fromkeys(("boolean", "int", "bigint", "decimal", "date", "time", "timestamp"), _NUMBER),
    "double": _DOUBLE_TEXT,
    "string": _text(),
    "bytes": "concat('\"', base64({value}), '\"')",
}
