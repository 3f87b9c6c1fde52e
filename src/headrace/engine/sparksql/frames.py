"""The rows of a plan's relation as a Spark frame, and expressions over it.

| column | meaning |
|---|---|
| sequence, place | the order: the input record of a row, and numbers that distinguish the rows of one record |
| time | of the row |
| keyed, k0 ... | whether there is a key, and its columns; they are null without a key |
| window_start, window_end | of the key, where the relation has a window |
| valued, v0 ... | whether there is a row (else no payload, or a deletion), and its columns |
| headers | of the input record |

Values are represented as in `column_types`. An expression is Spark SQL where it has an exact form, else the chain's own
evaluator in a Python function, which gets exactly the columns it reads: all such expressions of a node in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from headrace.engine.sparksql.arithmetic import NotExpressible
from headrace.engine.sparksql.column_types import column_type, from_column, to_column
from headrace.engine.sparksql.expressions import column_name, to_sql
from headrace.plan.codegen.compiler import Evaluate, evaluator
from headrace.plan.expressions import PSEUDO, Call, Expression, column_names
from headrace.plan.functions import SCALARS
from headrace.plan.relations import Relation
from headrace.plan.serialization import deserialize_plan, serialize_plan
from headrace.plan.steps import Context, Event

ORDER = ("sequence", "place")
BOUNDS = ("window_start", "window_end")


def key_columns(relation: Relation) -> list[str]:
    bounds = BOUNDS if relation.window else ()
    return ["keyed", *(f"k{i}" for i in range(len(relation.key))), *bounds]


def value_columns(relation: Relation) -> list[str]:
    return ["valued", *(f"v{i}" for i in range(len(relation.value)))]


def frame_columns(relation: Relation) -> list[str]:
    return [*ORDER, "time", *key_columns(relation), *value_columns(relation), "headers"]


def row_columns(relation: Relation) -> list[str]:
    """The columns of the row itself: its time, key and values."""
    return ["time", *key_columns(relation), *value_columns(relation)]


def type_of(name: str, relation: Relation) -> pa.DataType:
    """The plan's type of a key or value column of the frame."""
    fields = relation.value if name[0] == "v" else relation.key
    return fields[int(name[1:])].type


def with_expressions(rows: DataFrame, relation: Relation, expressions: Mapping[str, Expression]) -> DataFrame:
    """The frame with a column for each expression."""
    native: dict[str, Column] = {}
    python: dict[str, Expression] = {}
    for name, expression in expressions.items():
        try:
            native[name] = f.expr(to_sql(expression, relation))
        except NotExpressible:
            python[name] = expression
    computed = rows.withColumns(native) if native else rows
    return computed.withColumns(python_expressions(python, relation)) if python else computed


def python_expressions(expressions: Mapping[str, Expression], relation: Relation) -> dict[str, Column]:
    """Evaluates the expressions with the chain's own evaluator."""
    kinds = _kinds(tuple(expressions.values()))
    evaluation = ExpressionEvaluator(
        serialize_plan((tuple(expressions.values()), relation)), tuple(_used(expressions, relation))
    )
    result = pa.struct([(f"e{i}", column_type(kind)) for i, kind in enumerate(kinds)])
    call = python_function(evaluation, result)(*evaluation.inputs)
    return {name: call.getField(f"e{i}") for i, name in enumerate(expressions)}


def python_function(work: Callable[..., pa.Array], result: pa.DataType) -> Callable[..., Column]:
    """Wraps a function of columns as a UDF; Spark requires a plain function with plain type hints."""

    def call(*columns: pa.Array) -> pa.Array:
        return work(*columns)

    return f.arrow_udf(call, from_arrow_type(result))  # type: ignore[call-overload]


def _kinds(expressions: Sequence[Expression]) -> list[pa.DataType]:
    """The result types of expressions: a table function returns a list of its items."""
    return [pa.list_(e.type) if is_table_function(e) else e.type for e in expressions]


def is_table_function(expression: Expression) -> bool:
    return isinstance(expression, Call) and SCALARS[expression.name.upper()].table


def _used(expressions: Mapping[str, Expression], relation: Relation) -> Iterator[str]:
    names = {name for expression in expressions.values() for name in column_names(expression)}
    for name in sorted(names - set(PSEUDO)):
        yield column_name(name, relation)


@dataclass(frozen=True)
class ExpressionEvaluator:
    """In a worker: columns in, a struct of results out."""

    data: bytes
    used: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        _, relation = deserialize_plan(self.data)
        return ["time", "keyed", "valued", *(BOUNDS if relation.window else ()), *self.used]

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        expressions, relation, evaluate = _evaluator(self.data)
        named_arrays = dict(zip(self.inputs, arrays, strict=True))
        keys = row_tuples(named_arrays, "k", relation, "keyed")
        rows = row_tuples(named_arrays, "v", relation, "valued")
        results = [
            evaluate(time, key, row)
            for time, key, row in zip(named_arrays["time"].to_pylist(), keys, rows, strict=True)
        ]
        kinds = _kinds(expressions)
        columns = [to_column([result[i] for result in results], kind) for i, kind in enumerate(kinds)]
        return pa.StructArray.from_arrays(columns, [f"e{i}" for i in range(len(kinds))])


def row_tuples(arrays: Mapping[str, pa.Array], prefix: str, relation: Relation, present: str) -> Iterator[tuple | None]:
    """Keys or rows as tuples; columns that are not read are null."""
    width = len(relation.value if prefix == "v" else relation.key)
    nulls = [None] * len(arrays[present])
    names = [f"{prefix}{i}" for i in range(width)]
    columns = [from_column(arrays[n], type_of(n, relation)) if n in arrays else nulls for n in names]
    if prefix == "k" and relation.window:
        columns.append(list(zip(*(arrays[bound].to_pylist() for bound in BOUNDS), strict=True)))
    tuples = zip(*columns, strict=True) if columns else [()] * len(nulls)
    return (row if is_present else None for row, is_present in zip(tuples, arrays[present].to_pylist(), strict=True))


def row_arrays(events: Sequence[Event], relation: Relation) -> Iterator[pa.Array]:
    """Events as the columns of `row_columns`."""
    yield pa.array([time for time, _, _ in events], pa.int64())
    yield pa.array([key is not None for _, key, _ in events], pa.bool_())
    for i, field in enumerate(relation.key):
        yield to_column([key and key[i] for _, key, _ in events], field.type)
    for bound in (0, 1) if relation.window else ():
        yield pa.array([key and key[-1][bound] for _, key, _ in events], pa.int64())
    yield pa.array([row is not None for _, _, row in events], pa.bool_())
    for i, field in enumerate(relation.value):
        yield to_column([row and row[i] for _, _, row in events], field.type)


@lru_cache(256)
def _evaluator(data: bytes) -> tuple[tuple[Expression, ...], Relation, Evaluate]:
    expressions, relation = deserialize_plan(data)
    return expressions, relation, evaluator(expressions, relation, Context(), "batch")
