"""Renders result rows of pull and push queries: the columns of SELECT in order, as JSON.

A deleted row has only its key and its window; all else is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from headrace.formats.json.encoder import dumps, row_writer
from headrace.plan import expressions as e
from headrace.plan.actions import TransientSelect
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Key

Cells = Callable[[Key, Any], list[Any]]


class ResultRow(NamedTuple):
    """The JSON text of an array; `deleted` marks a deleted row of a table."""

    text: bytes
    deleted: bool = False


class ResultRowWriter:
    """Renders the output of a transient query's plan: events, or changes of a table."""

    def __init__(self, select: TransientSelect) -> None:
        self._cells = _cells(select.query.sink.relation, [column.name for column in select.columns])
        self._write = row_writer([column.type for column in select.columns])

        self._deletes = select.query.sink.relation.kind is Kind.TABLE

    def render(self, entries: Iterable[Sequence[Any]]) -> list[ResultRow]:
        """Renders entries; a stream's entry without values has no row."""
        return [self.render_row(entry[1], entry[2]) for entry in entries if self._deletes or entry[2] is not None]

    def render_row(self, key: Key, row: Any) -> ResultRow:
        cells = self._cells(key, row)
        return ResultRow(dumps(cells if self._write is None else self._write(cells)), row is None)


def _cells(relation: Relation, names: Sequence[str]) -> Cells:
    """Compiles one expression for all columns, since it runs for every row."""
    sources = {field.name: f"row[{i}]" for i, field in enumerate(relation.value)}
    sources |= {field.name: f"key[{i}]" for i, field in enumerate(relation.key)}
    if relation.window is not None:
        sources |= {name: f"key[-1][{i}]" for i, name in enumerate(e.BOUNDS)}
    present = ", ".join(sources[name] for name in names)
    deleted = ", ".join(sources[name] if sources[name].startswith("key") else "None" for name in names)
    keyless = ", ".join("None" if sources[name].startswith("key") else sources[name] for name in names)
    return eval(f"lambda key, row: [{deleted}] if row is None else [{keyless}] if key is None else [{present}]")
