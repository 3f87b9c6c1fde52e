"""GROUP BY over a small relation: text `g` to group by, number `n` to aggregate, number `id` as the key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.functions import AGGREGATES
from headrace.plan.functions.signature import resolve
from headrace.plan.nodes import Aggregate, AggregateCall, Final, Source
from headrace.plan.relations import Format, Kind, Relation, Window, WindowKind
from headrace.plan.types import BIGINT, STRING
from headrace.schema import Field

G, N = Column(STRING, "g"), Column(BIGINT, "n")


def source(kind: Kind = Kind.STREAM) -> Source:
    relation = Relation(kind, (Field("id", BIGINT),), (Field("g", STRING), Field("n", BIGINT)))
    return Source("s", "s", relation, Format("KAFKA"), Format("JSON"))


def call(text: str) -> AggregateCall:
    """`COUNT`, or `SUM n`."""
    name, *rest = text.split()
    arguments = tuple({"n": N, "g": G}[column] for column in rest)
    overload = resolve(AGGREGATES[name], [a.type for a in arguments]).overload
    return AggregateCall(text, name, overload, arguments)


def grouped(*calls: str, kind: Kind = Kind.STREAM, window: Window | None = None, by: tuple[Any, ...] = (G,)) -> Any:
    keys = tuple(Field(f"k{i}", column.type) for i, column in enumerate(by))
    relation = Relation(Kind.TABLE, keys, tuple(Field(text, BIGINT) for text in calls), window)
    groups = tuple(NamedExpression(field.name, column) for field, column in zip(keys, by, strict=True))
    return Aggregate(source(kind), relation, groups, tuple(map(call, calls)))


def finished(node: Any) -> Final:
    return Final(node, node.relation)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def tumbling(size: int, grace: int | None = None, retention: int | None = None) -> Window:
    return hopping(size, size, grace, retention, WindowKind.TUMBLING)


def hopping(
    size: int, advance: int, grace: int | None = None, retention: int | None = None, kind: Any = WindowKind.HOPPING
) -> Window:
    return Window(
        kind,
        ms(size),
        ms(advance),
        grace=None if grace is None else ms(grace),
        retention=None if retention is None else ms(retention),
    )


def session(gap: int, grace: int | None = None) -> Window:
    return Window(WindowKind.SESSION, gap=ms(gap), grace=None if grace is None else ms(grace))


def event(time: int, group: str | None, number: int | None = 1) -> tuple[int, Any, Any]:
    return time, (0,), (group, number)


def on_port(entries: Any) -> list[tuple[int, Any]]:
    return [(0, entry) for entry in entries]
