"""Every function has a description and an example, and every example gives the result that it shows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tools.function_pages import AREAS, SAMPLE, Declared, declared

from headrace.formats.java_numbers import decimal_text, double_text
from headrace.lang.ksql.analyzer.scope import Scope
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.grammar.parser import parse_expression
from headrace.plan import types as t
from headrace.plan.chain.row_codec import decode_row
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.functions.declaration import AggregateFunction
from headrace.plan.iso_datetime import format_date, format_time, format_timestamp
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Context, Problem
from headrace.testing import World
from headrace.testing.memory_query import raw_record

FUNCTIONS = declared()


def test_the_page_lists_every_function() -> None:
    assert len(FUNCTIONS) == len({f.name for f in FUNCTIONS})
    assert {f.area for f in FUNCTIONS} == set(AREAS)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_the_example_of_a_function_gives_its_result(function: Declared) -> None:
    assert function.doc.endswith(".")
    call, result = function.example
    assert function.name in call
    assert shown(function, call) == result


def shown(function: Declared, call: str) -> str:
    if isinstance(function, AggregateFunction):
        return _rows(f"CREATE TABLE result AS SELECT country, {call} AS value FROM orders GROUP BY country;")[-1]
    if function.table:
        return ", ".join(_rows(f"CREATE STREAM result AS SELECT id, {call} AS value FROM orders WHERE id = 1;"))
    return _computed(call)


def _computed(call: str) -> str:
    expression = Typer(Scope((), ()), "SELECT", {}).typed(parse_expression(call))
    problems: list[Problem] = []
    nothing = Relation(Kind.STREAM, (), ())
    (value,) = evaluator([expression], nothing, Context(report=problems.append), "example")(0, None, ())
    assert not problems
    return text(value, expression.type)


def _rows(query: str) -> list[str]:
    """What the query writes when the sample's rows come, one after another."""
    create, inserts = SAMPLE.split("\n\n")
    world = World()
    for statements in (create, query, inserts):
        world.execute(statements)
    source = world.catalog.sources["RESULT"]
    rows = [decode_row(source, raw_record(entry))[2] for entry in world.topics["RESULT"]]
    return [text(row[0], source.relation.value[0].type) for row in rows if row is not None]


# -- a value as SQL would write it ----------------------------------------------------------------------------------


def text(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if t.is_array(kind):
        return f"ARRAY[{', '.join(text(item, kind.value_type) for item in value)}]"
    if t.is_map(kind):
        return f"MAP({', '.join(f'{text(k, kind.key_type)} := {text(v, kind.item_type)}' for k, v in value.items())})"
    if t.is_struct(kind):
        return f"STRUCT({', '.join(f'{name} := {text(value[name], inner)}' for name, inner in t.fields(kind).items())})"
    return _scalar(value, kind)


_WRITTEN: dict[pa.DataType, Callable[[Any], str]] = {
    t.BOOLEAN: lambda value: str(value).lower(),
    t.DOUBLE: double_text,
    t.STRING: lambda value: "'" + value.replace("'", "''") + "'",
    t.DATE: lambda value: f"DATE '{format_date(value)}'",
    t.TIME: lambda value: f"TIME '{format_time(value)}'",
    t.TIMESTAMP: lambda value: f"TIMESTAMP '{format_timestamp(value)}'",
}


def _scalar(value: Any, kind: pa.DataType) -> str:
    return decimal_text(value) if isinstance(value, Decimal) else _WRITTEN.get(kind, str)(value)
