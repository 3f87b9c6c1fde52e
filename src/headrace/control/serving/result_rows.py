"""Renders result rows of pull and push queries: the columns of SELECT in order, as JSON.

A deleted row has only its key and its window; all else is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from headrace.formats.json.encoder import dumps, row_writer
from headrace.plan import expressions as e
from headrace.plan.actions import TransientSelect
from headrace.plan.chain.contract import Key
from headrace.plan.relations import Kind, Relation

Cells = Callable[[Key, Any], list[Any]]


class ResultRow(NamedTuple):
    """The JSON text of an array; `deleted` marks a deleted row of a table."""

    text: bytes
    deleted: bool = False


class ResultRowWriter:
    """Renders the output of a transient query's plan: events, or changes of a table."""

    def __init__(self, ask: TransientSelect) -> None:
        self._cells = _cells(ask.query.sink.relation, [column.name for column in ask.columns])
        self._written = row_writer([column.type for column in ask.columns])

        self._deletes = ask.query.sink.relation.kind is Kind.TABLE

    def of(self, entries: Iterable[Sequence[Any]]) -> list[ResultRow]:
        """Renders entries; a stream's entry without values has no row."""
        return [self.row(entry[1], entry[2]) for entry in entries if self._deletes or entry[2] is not None]

    def row(self, key: Key, row: Any) -> ResultRow:
        cells = self._cells(key, row)
        return ResultRow(dumps(cells if self._written is None else self._written(cells)), row is None)


def _cells(relation: Relation, names: Sequence[str]) -> Cells:
    """Compiles one expression for all columns, since it runs for every row."""
    places = {field.name: f"row[{i}]" for i, field in enumerate(relation.value)}
    places |= {field.name: f"key[{i}]" for i, field in enumerate(relation.key)}
    if relation.window is not None:
        places |= {name: f"key[-1][{i}]" for i, name in enumerate(e.BOUNDS)}
    there = ", ".join(places[name] for name in names)
    gone = ", ".join(places[name] if places[name].startswith("key") else "None" for name in names)
    keyless = ", ".join("None" if places[name].startswith("key") else places[name] for name in names)
    return eval(f"lambda key, row: [{gone}] if row is None else [{keyless}] if key is None else [{there}]")
