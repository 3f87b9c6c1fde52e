"""Pull queries that are planned and compiled once, and asked again and again with other values.

Of each shape of question as many are kept as were ever asked at once: whoever asks takes one, gives it the values, and
puts it back. When the catalog changes all are forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import HeadraceError
from headrace.lang.ksql.preparing import lifted, shape_of
from headrace.plan.answers.rows import Rows
from headrace.plan.catalog import Ask
from headrace.plan.expressions import Cast, Cell, Parameter
from headrace.plan.expressions import walk as walk_expression
from headrace.plan.nodes import Filter, Kind, walk
from headrace.views.pulling import Pull

MOST = 200
"""Shapes that are kept; the one that was asked longest ago goes first."""

Plan = Callable[[Any], Ask]
"""A question's AST to what it asks."""


@dataclass(frozen=True)
class Prepared:
    """A question to a table, ready to be asked; only one may do so at a time."""

    ask: Ask
    cells: Sequence[Cell]
    pull: Pull
    rows: Rows


@dataclass
class Shape:
    """Those of one shape that nobody uses at the moment; `fit` is False if it must be planned as it is written."""

    fit: bool = True
    idle: list[Prepared] = field(default_factory=list)


class Preparing:
    """`plan` plans a question in the catalog as it is."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._shapes: OrderedDict[str, Shape] = OrderedDict()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """The catalog has changed."""
        with self._lock:
            self._shapes.clear()

    @contextmanager
    def taken(self, text: str, *, at_hand: bool = False) -> Iterator[Prepared | None]:
        """A question for the caller alone; None if it cannot be prepared.

        If it must be `at_hand`, only one that lies ready and looks up a few rows: nobody waits for that.
        """
        found = shape_of(text)
        if found is None:
            yield None
            return
        name, values = found
        shape = self._shape(name)
        prepared = _ready(shape) if at_hand else self._idle(shape, text, values)
        if prepared is None:
            yield None
            return
        for cell, value in zip(prepared.cells, values, strict=True):
            cell.value = value
        yield prepared
        with self._lock:
            shape.idle.append(prepared)

    def _shape(self, name: str) -> Shape:
        with self._lock:
            shape = self._shapes.pop(name, None) or Shape()
            self._shapes[name] = shape
            if len(self._shapes) > MOST:
                self._shapes.popitem(last=False)
            return shape

    def _idle(self, shape: Shape, text: str, values: Sequence[Any]) -> Prepared | None:
        try:
            return shape.idle.pop()
        except IndexError:
            return self._made(shape, text, values) if shape.fit else None

    def _made(self, shape: Shape, text: str, values: Sequence[Any]) -> Prepared | None:
        """What is wrong with a question is told when it is planned as it is written."""
        try:
            found = lifted(text, values)
            ask = None if found is None else self._plan(found[0])
        except HeadraceError:
            found = ask = None
        if found is None or ask is None or ask.query.sources[0].relation.kind is Kind.STREAM or _is_cast(ask):
            shape.fit = False
            return None
        return Prepared(ask, found[1], Pull(ask.query, order=ask.order, limit=ask.limit), Rows(ask))


def _ready(shape: Shape) -> Prepared | None:
    return shape.idle.pop() if shape.idle and shape.idle[-1].pull.is_lookup else None


def _is_cast(ask: Ask) -> bool:
    """Whether a value is made another row by row: as a literal that would be done, or refused, once."""
    conditions = [node.condition for node in walk(ask.query.sink) if isinstance(node, Filter)]
    parts = [part for condition in conditions for part in walk_expression(condition)]
    return any(isinstance(part, Cast) and isinstance(part.value, Parameter) for part in parts)
