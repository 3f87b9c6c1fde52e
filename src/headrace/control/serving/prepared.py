"""Caches prepared pull queries: planned and compiled once, executed many times with other values.

For each query shape the cache has as many instances as were ever in use at once: a caller takes one, sets the values,
and puts it back. A change of the catalog clears the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.control.serving.result_rows import ResultRowWriter
from headrace.errors import HeadraceError
from headrace.lang.contract import Dialect
from headrace.plan.actions import TransientSelect
from headrace.plan.expressions import Cast, Parameter, ParameterCell
from headrace.plan.expressions import walk as walk_expression
from headrace.plan.nodes import Filter, walk
from headrace.plan.relations import Kind
from headrace.views.pull_query import PullQuery

MAX_SHAPES = 200
"""Size of the cache in shapes; the least recently used one is evicted."""

ParameterizedPlan = tuple[TransientSelect, Sequence[ParameterCell]]
PlanParameterized = Callable[[str, Sequence[Any]], ParameterizedPlan | None]
"""Plans a query with parameters in place of the values in its text."""


@dataclass(frozen=True)
class PreparedPullQuery:
    """A compiled pull query on a table; not thread-safe."""

    select: TransientSelect
    cells: Sequence[ParameterCell]
    pull: PullQuery
    rows: ResultRowWriter


@dataclass
class QueryShape:
    """The unused instances of one shape; `preparable` is False if such queries cannot be prepared."""

    preparable: bool = True
    idle: list[PreparedPullQuery] = field(default_factory=list)


class PreparedQueryCache:
    """`plan` plans a query with the current catalog. With `only_light`, heavy queries are not prepared: workers execute
    them."""

    def __init__(self, dialect: Dialect, plan: PlanParameterized, *, only_light: bool = False) -> None:
        self._dialect = dialect
        self._plan = plan
        self._only_light = only_light
        self._shapes: OrderedDict[str, QueryShape] = OrderedDict()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Clear the cache, because the catalog has changed."""
        with self._lock:
            self._shapes.clear()

    @contextmanager
    def borrow(self, text: str, *, ready_only: bool = False) -> Iterator[PreparedPullQuery | None]:
        """A prepared query for exclusive use by the caller; None if it cannot be prepared.

        With `ready_only`, only an instance that is ready and looks up a few rows, so that the caller does not block.
        """
        parameterized = self._dialect.parameterize(text)
        if parameterized is None:
            yield None
            return
        name, values = parameterized
        shape = self._shape(name)
        prepared = _take_lookup(shape) if ready_only else self._take_or_prepare(shape, text, values)
        if prepared is None:
            yield None
            return
        for cell, value in zip(prepared.cells, values, strict=True):
            cell.value = value
        yield prepared
        with self._lock:
            shape.idle.append(prepared)

    def _shape(self, name: str) -> QueryShape:
        with self._lock:
            shape = self._shapes.pop(name, None) or QueryShape()
            self._shapes[name] = shape
            if len(self._shapes) > MAX_SHAPES:
                self._shapes.popitem(last=False)
            return shape

    def _take_or_prepare(self, shape: QueryShape, text: str, values: Sequence[Any]) -> PreparedPullQuery | None:
        try:
            return shape.idle.pop()
        except IndexError:
            return self._prepare(shape, text, values) if shape.preparable else None

    def _prepare(self, shape: QueryShape, text: str, values: Sequence[Any]) -> PreparedPullQuery | None:
        """Errors are ignored here: planning the query as written reports them."""
        try:
            planned = self._plan(text, values)
        except HeadraceError:
            planned = None
        if planned is None or planned[0].query.sources[0].relation.kind is Kind.STREAM or _is_cast(planned[0]):
            shape.preparable = False
            return None
        select, cells = planned
        pull = PullQuery(select.query, order=select.order, limit=select.limit)
        if self._only_light and pull.is_heavy:
            shape.preparable = False
            return None
        return PreparedPullQuery(select, cells, pull, ResultRowWriter(select))


def _take_lookup(shape: QueryShape) -> PreparedPullQuery | None:
    return shape.idle.pop() if shape.idle and shape.idle[-1].pull.is_lookup else None


def _is_cast(select: TransientSelect) -> bool:
    """Whether a parameter is cast for each row: a literal would be cast, or rejected, once at planning."""
    conditions = [node.condition for node in walk(select.query.sink) if isinstance(node, Filter)]
    parts = [part for condition in conditions for part in walk_expression(condition)]
    return any(isinstance(part, Cast) and isinstance(part.value, Parameter) for part in parts)
