"""Every Spark template of a function gives what the Python form gives, over random values, nulls and extremes.

All templates run in one Spark job: each row holds arguments for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.engine.sparksql.column_types import column_type, from_column, natural_sql, to_column
from headrace.plan import types as ty
from headrace.plan.functions import SCALARS
from headrace.plan.functions.declaration import NullRule, Overload
from headrace.plan.functions.signature import parse_signature

pytestmark = pytest.mark.spark

ROWS = 400
FILLINGS = (ty.INT, ty.BIGINT, ty.DOUBLE, ty.BOOLEAN, ty.STRING, ty.BYTES, ty.DATE, ty.decimal(10, 2))
"""What stands for a letter in a signature, one after another."""
DAY = 86_400_000


@dataclass(frozen=True)
class Use:
    """A template with types for its arguments."""

    name: str
    overload: Overload
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"

    def python(self, *arguments: Any) -> Any:
        if self.overload.nulls is NullRule.PROPAGATE and None in arguments:
            return None
        form = self.overload.python(self.arguments) if self.overload.typed else self.overload.python
        return form(*arguments)


def uses() -> Iterator[Use]:
    for name, function in SCALARS.items():
        for overload in function.overloads if name == function.name.upper() else ():
            if overload.spark is not None:
                yield from _filled(name, overload)


def _filled(name: str, overload: Overload) -> Iterator[Use]:
    signature = parse_signature(overload.signature)
    generic = any(parameter.pattern.generics for parameter in signature.parameters)
    for filling in FILLINGS if generic else FILLINGS[:1]:
        bound: Any = dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", filling)
        arguments = tuple(parameter.pattern.fill(bound) for parameter in signature.parameters)
        result = overload.returns(arguments) if overload.returns else signature.result.fill(bound)
        yield Use(name, overload, arguments, result)


USES = tuple(uses())

# -- values ---------------------------------------------------------------------------------------------------------

_EXTREMES: dict[pa.DataType, Sequence[Any]] = {
    ty.INT: (0, 1, -1, 2, 5, 10, 2147483647, -2147483648),
    ty.BIGINT: (0, 1, -1, 9223372036854775807, -9223372036854775808),
    ty.DOUBLE: (0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1.7976931348623157e308, 5e-324, 180.0),
    ty.BOOLEAN: (True, False),
    ty.STRING: ("", " ", "a", "ab", "ABC", "é", "e\u0301", "𝄞x", "İß", "\0", "a\nb", "%_\\"),
    ty.BYTES: (b"", b"\0", b"\xff\xfe", b"abc"),
    ty.DATE: (0, -1, 1, 19000, -719162, 2932896),
    ty.TIMESTAMP: (0, -1, 999, 1_700_000_000_123, -62_135_596_800_000, 253_402_300_799_999),
}
_RANDOM: dict[pa.DataType, Callable[[random.Random], Any]] = {
    ty.INT: lambda r: r.choice([r.randint(-20, 20), r.randint(-(1 << 31), (1 << 31) - 1)]),
    ty.BIGINT: lambda r: r.randint(-(1 << 63), (1 << 63) - 1),
    ty.DOUBLE: lambda r: r.choice([r.uniform(-10, 10), r.uniform(-1e300, 1e300), float(r.randint(-360, 360))]),
    ty.BOOLEAN: lambda r: r.random() < 0.5,
    ty.STRING: lambda r: "".join(r.choice("aB é𝄞%'\\0\t") for _ in range(r.randint(0, 8))),
    ty.BYTES: lambda r: r.randbytes(r.randint(0, 6)),
    ty.DATE: lambda r: r.randint(-700_000, 2_900_000),
    ty.TIMESTAMP: lambda r: r.randint(-(1 << 45), 1 << 45),
}


def value(kind: pa.DataType, r: random.Random) -> Any:
    if r.random() < 0.1:
        return None
    if ty.is_array(kind):
        return [value(kind.value_type, r) for _ in range(r.randint(0, 4))]
    if ty.is_map(kind):
        return {k: value(kind.item_type, r) for _ in range(3) if (k := value(kind.key_type, r)) is not None}
    if ty.is_decimal(kind):
        return Decimal(r.randint(-(10**kind.precision) + 1, 10**kind.precision - 1)).scaleb(-kind.scale)
    return r.choice(_EXTREMES[kind]) if r.random() < 0.4 else _RANDOM[kind](r)


def arguments(use: Use, number: int) -> list[tuple[Any, ...]]:
    r = random.Random(number)
    rows = [tuple(value(kind, r) for kind in use.arguments) for _ in range(ROWS)]
    # A padding's length is the size of the result.
    return [tuple(min(a, 50) if type(a) is int and "PAD" in use.name else a for a in row) for row in rows]


_BACK = {ty.DATE: "unix_date({0})", ty.TIMESTAMP: "unix_millis({0})"}


def _back(text: str, kind: pa.DataType) -> str:
    if ty.is_array(kind) and kind.value_type in _BACK:
        return f"transform({text}, y -> {_BACK[kind.value_type].format('y')})"
    return _BACK.get(kind, "{0}").format(text)


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> dict[str, list[Any]]:
    """The results of all templates."""
    columns: dict[str, pa.Array] = {"row": pa.array(range(ROWS))}
    texts = ["row"]
    for number, use in enumerate(USES):
        rows = arguments(use, number)
        for i, kind in enumerate(use.arguments):
            columns[f"c{number}_{i}"] = to_column([row[i] for row in rows], kind)
        inputs = [natural_sql(f"c{number}_{i}", kind) for i, kind in enumerate(use.arguments)]
        made = str(use.overload.spark).format(*inputs)
        texts.append(f"{_back(f'({made})', use.result)} as r{number}")
    found = spark.createDataFrame(pa.table(columns)).selectExpr(*texts).toArrow().sort_by("row")
    return {
        str(use): from_column(found[f"r{n}"].combine_chunks().cast(column_type(use.result)), use.result)
        for n, use in enumerate(USES)
    }


@pytest.mark.parametrize("number", range(len(USES)), ids=map(str, USES))
def test_templates_give_the_results_of_python(number: int, by_spark: dict[str, list[Any]]) -> None:
    use = USES[number]
    rows = arguments(use, number)
    expected = [use.python(*row) for row in rows]
    differ = [
        (row, mine, theirs)
        for row, mine, theirs in zip(rows, expected, by_spark[str(use)], strict=True)
        if repr(mine) != repr(theirs)
    ]
    assert not differ[:5]
