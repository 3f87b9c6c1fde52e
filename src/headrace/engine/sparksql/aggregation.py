"""GROUP BY with Spark's operators: the last result of every group and of every tumbling or hopping window.

Whether a row is late is decided before, per row, from the time of the rows before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.engine.sparksql.frames import ORDER, frame_columns, with_expressions
from headrace.plan import types as ty
from headrace.plan.chain.aggregation.windows import grace_of, milliseconds
from headrace.plan.nodes import Aggregate, AggregateCall
from headrace.plan.relations import Window

_ORDERED = (ty.INT, ty.BIGINT, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
"""Types that Spark sorts as the chain does: not DOUBLE, where NaN is the greatest."""

_HALF = "4294967295L"

Form = Callable[[str, pa.DataType], str]
"""Returns SQL from the argument's column and type."""


def sum_of(argument: str, kind: pa.DataType) -> str:
    """A sum that wraps around, as in Java: the halves of the numbers are added separately, and combined."""
    low, high = (f"coalesce(sum({half}), 0L)" for half in (f"{argument} & {_HALF}", f"shiftright({argument}, 32)"))
    if kind == ty.INT:
        return f"cast(shiftright(shiftleft(coalesce(sum({argument}), 0L), 32), 32) as int)"
    return f"(shiftleft({high} + shiftright({low}, 32), 32) | ({low} & {_HALF}))"


def _least(name: str) -> Form:
    return lambda argument, kind: f"{name}({argument})"


def _by_offset(name: str) -> Form:
    return lambda argument, kind: f"{name}({argument}, struct(sequence, place)) filter (where {argument} is not null)"


_FORMS: Mapping[str, tuple[Form, tuple[pa.DataType, ...] | None]] = {
    "COUNT": (lambda argument, kind: f"count({argument})", None),
    "SUM": (sum_of, (ty.INT, ty.BIGINT)),
    "MIN": (_least("min"), _ORDERED),
    "MAX": (_least("max"), _ORDERED),
    "LATEST_BY_OFFSET": (_by_offset("max_by"), None),
    "EARLIEST_BY_OFFSET": (_by_offset("min_by"), None),
}
"""By function: its SQL in Spark, and for which types of the argument; None means all."""


def aggregate_sql(call: AggregateCall, argument: str) -> str | None:
    """The aggregate in SQL; None if Spark has no equivalent."""
    form, kinds = _FORMS.get(call.function.upper(), (None, None))
    if form is None or call.constants or len(call.arguments) > 1:
        return None
    if not call.arguments:
        return form("1", ty.INT)
    kind = call.arguments[0].type
    return form(argument, kind) if kinds is None or kind in kinds else None


def group_rows(rows: DataFrame, node: Any, *carried: str) -> tuple[DataFrame, list[str]]:
    """The rows that have a group, with its columns (g0 ...) and the arguments (a0 ...); and the names of the groups."""
    computed, groups = with_groups(rows.where("valued"), node, *carried)
    return computed.where(" and ".join(f"{group} is not null" for group in groups)), groups


def with_groups(rows: DataFrame, node: Any, *carried: str) -> tuple[DataFrame, list[str]]:
    """As `group_rows`, but with all rows, also those without a group."""
    groups = {f"g{i}": named.expression for i, named in enumerate(node.groups)}
    places = iter(range(1 << 30))
    arguments = {f"a{next(places)}": argument for call in node.calls for argument in call.arguments}
    computed = with_expressions(rows, node.input.relation, {**groups, **arguments})
    return computed.select(*ORDER, "time", *groups, *arguments, *carried), list(groups)


def in_open_windows(rows: DataFrame, window: Window) -> DataFrame:
    """Assigns each row to every window that contains its time and was open when it arrived, at stream time `now`."""
    size, grace = milliseconds(window.size), grace_of(window)
    advance = milliseconds(window.advance) or size
    first = f"greatest(time - {size} + {advance}, 0L) div {advance} * {advance}"
    starts = f"if({first} <= time, sequence({first}, time, {advance}L), cast(array() as array<bigint>))"
    timed = rows.withColumn("window_start", f.explode(f.expr(starts)))
    return timed.withColumn("window_end", f.expr(f"window_start + {size}")).where(f"window_end > now - {grace}")


def aggregates_sql(node: Aggregate) -> list[str]:
    """All aggregates in SQL: `planning.native_support` has ensured that each has an equivalent."""
    places = iter(range(len(node.calls)))
    return [str(aggregate_sql(call, f"a{next(places)}" if call.arguments else "")) for call in node.calls]


def aggregate_in_spark(rows: DataFrame, forms: list[str], by: list[str]) -> DataFrame:
    """Aggregates the groups with Spark's own aggregates."""
    results = [f.expr(form).alias(f"v{i}") for i, form in enumerate(forms)]
    return rows.groupBy(*by).agg(f.max("time").alias("time"), *results)


def as_frame(results: DataFrame, node: Any) -> DataFrame:
    """The results of groups as the frame of the aggregate's relation."""
    constant: dict[str, Column] = {
        "sequence": f.lit(0).cast("bigint"),
        "place": f.array().cast("array<int>"),
        "keyed": f.lit(True),
        "valued": f.lit(True),
        "headers": f.lit(None).cast("array<struct<key: string, value: binary>>"),
    }
    keys = {f"k{i}": f.col(f"g{i}") for i in range(len(node.groups))}
    return results.withColumns({**constant, **keys}).select(*frame_columns(node.relation))
