"""Renders a plan as text: as a tree from the result down to the sources, and as a Graphviz graph.

It shows what runs: the plan after `plan.rules`.

Both are derived from the nodes' fields, so a new kind of node needs no code here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import singledispatch
from typing import Any

from headrace.plan import expressions as e
from headrace.plan.nodes import AggregateCall, Node, Query, Sink, Source
from headrace.plan.operators import OperatorDefinition
from headrace.plan.relations import Format, Relation, SystemColumn, Timestamp, Window
from headrace.plan.rules import optimize
from headrace.plan.triggers import After, Every, Panes, PerBatch, PerRecord
from headrace.schema import type_name

_HIDDEN_FIELDS = ("relation", "name", "overload")


def tree(query: Query) -> str:
    """Renders the plan as an indented tree.

    sink OUT (topic "OUT", json)
      select N = count
        aggregate ...
    """
    return "\n".join(_lines(optimize(query).sink, ""))


def graph(query: Query) -> str:
    """Renders the plan as a graph: sources on the left, the result on the right."""
    lines = ["digraph plan {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    numbers = iter(range(1 << 30))
    _edges(optimize(query).sink, next(numbers), numbers, lines)
    return "\n".join([*lines, "}"])


def _edges(node: Node, number: int, numbers: Iterator[int], lines: list[str]) -> None:
    label = "\\l".join(
        part.replace("\\", "\\\\").replace('"', "'") for part in (_title(node, _kind(node)), *_details(node))
    )
    lines.append(f'  n{number} [label="{label}\\l"];')
    for below in node.inputs:
        child = next(numbers)
        _edges(below, child, numbers, lines)
        lines.append(f"  n{child} -> n{number};")


def describe_state(node: Node) -> str:
    """Describes a node without its inputs, under its name in checkpoints."""
    return "; ".join((_title(node, node.state_name), *_details(node)))


def _lines(node: Node, indent: str) -> Iterator[str]:
    yield f"{indent}{_title(node, _kind(node))}"
    for detail in _details(node):
        yield f"{indent}    {detail}"
    for below in node.inputs:
        yield from _lines(below, f"{indent}  ")


def _kind(node: Node) -> str:
    """`StreamTableJoin` as `stream-table-join`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(node).__name__).lower()


def _title(node: Node, kind: str) -> str:
    name = f" {node.name}" if isinstance(node, Source | Sink) else ""
    return f"{kind}{name} -> {relation_text(node.relation)}"  # type: ignore[attr-defined]


def _details(node: Node) -> Iterator[str]:
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in _HIDDEN_FIELDS or isinstance(value, Node) or value in (None, (), False):
            continue
        yield f"{field.name}: {value_text(value)}"


def relation_text(relation: Relation) -> str:
    """`table (id bigint key, n bigint) by tumbling windows of 0:01:00`."""
    key = [f"{f.name} {type_name(f.type)} key" for f in relation.key]
    value = [f"{f.name} {type_name(f.type)}" for f in relation.value]
    window = f" by {_window(relation.window)}" if relation.window else ""
    return f"{relation.kind} ({', '.join(key + value)}){window}"


def _window(window: Window) -> str:
    length = window.size or window.gap
    parts = [f"{window.kind} windows" + (f" of {length}" if length else "")]
    if window.advance and window.advance != window.size:
        parts.append(f"every {window.advance}")
    if window.grace is not None:
        parts.append(f"grace {window.grace}")
    if window.idle is not None:
        parts.append(f"closed when idle for {window.idle}")
    return ", ".join(parts)


def _trigger(trigger: Any) -> str:
    """`every 0:00:10`; for panes, each with its own trigger."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(trigger).__name__).lower()
    parts = [(field.name, getattr(trigger, field.name)) for field in fields(trigger)]
    if isinstance(trigger, Panes):
        return " and ".join(["on time", *(f"{name} {_trigger(pace)}" for name, pace in parts if pace is not None)])
    return " ".join([words, *(str(value) for _, value in parts)])


_VALUES: Mapping[type, Callable[[Any], str]] = {
    **dict.fromkeys((PerRecord, PerBatch, Every, After, Panes), _trigger),
    Window: _window,
    Format: lambda f: " ".join([f.name, *(f"{name}={value}" for name, value in f.options)]),
    Timestamp: lambda s: s.column + (f" as {s.format}" if s.format else ""),
    SystemColumn: lambda s: f"{s.name} ({s.kind})",
    e.NamedExpression: lambda n: f"{n.name} = {expression_text(n.expression)}",
    AggregateCall: lambda c: (
        f"{c.name} = {c.function}({', '.join((*map(expression_text, c.arguments), *map(repr, c.constants)))})"
    ),
    OperatorDefinition: lambda k: f"{k.name}, {k.doc}" if k.is_ours else k.name,
    timedelta: str,
    bool: lambda b: str(b).lower(),
}


def value_text(value: Any) -> str:
    """Renders a field of a node."""
    if isinstance(value, e.Expression):
        return expression_text(value)
    if isinstance(value, tuple):
        return ", ".join(value_text(part) for part in value)
    return _VALUES.get(type(value), str)(value)


@singledispatch
def expression_text(expression: e.Expression) -> str:
    """Renders an expression as SQL-like text."""
    return (
        f"{type(expression).__name__.lower()}({', '.join(expression_text(child) for child in e.children(expression))})"
    )


@expression_text.register
def _(expression: e.Column) -> str:
    return expression.name


@expression_text.register
def _(expression: e.Variable) -> str:
    return expression.name


@expression_text.register
def _(expression: e.Literal) -> str:
    if isinstance(expression.value, str):
        return "'" + expression.value.replace("'", "''") + "'"
    return "null" if expression.value is None else str(expression.value)


@expression_text.register
def _(expression: e.Parameter) -> str:
    return "?"


@expression_text.register(e.Arithmetic)
@expression_text.register(e.Comparison)
def _(expression: e.Arithmetic | e.Comparison) -> str:
    return f"({expression_text(expression.left)} {expression.op} {expression_text(expression.right)})"


@expression_text.register
def _(expression: e.And) -> str:
    return f"({expression_text(expression.left)} and {expression_text(expression.right)})"


@expression_text.register
def _(expression: e.Or) -> str:
    return f"({expression_text(expression.left)} or {expression_text(expression.right)})"


@expression_text.register
def _(expression: e.Not) -> str:
    return f"not {expression_text(expression.value)}"


@expression_text.register
def _(expression: e.IsNull) -> str:
    return f"({expression_text(expression.value)} is null)"


@expression_text.register
def _(expression: e.Cast) -> str:
    return f"cast({expression_text(expression.value)} as {type_name(expression.type)})"


@expression_text.register
def _(expression: e.Call) -> str:
    return f"{expression.name}({', '.join(expression_text(a) for a in expression.arguments)})"


@expression_text.register
def _(expression: e.FieldOf) -> str:
    return f"{expression_text(expression.value)}->{expression.name}"


@expression_text.register
def _(expression: e.Subscript) -> str:
    return f"{expression_text(expression.value)}[{expression_text(expression.index)}]"


@expression_text.register
def _(expression: e.Lambda) -> str:
    return f"({', '.join(expression.parameters)}) => {expression_text(expression.body)}"


@expression_text.register
def _(expression: e.MakeStruct) -> str:
    return f"struct({', '.join(f'{name} := {expression_text(value)}' for name, value in expression.fields)})"
