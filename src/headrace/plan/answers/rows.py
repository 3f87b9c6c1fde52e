"""Rows of an answer: the columns of SELECT in their order, as JSON.

A row that was deleted still has its key and its window; all else is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from headrace.formats.serde.json_writing import dumps, row_writer
from headrace.plan import expressions as e
from headrace.plan.catalog import Ask
from headrace.plan.chain.contract import Key
from headrace.plan.nodes import Kind, Relation

Cells = Callable[[Key, Any], list[Any]]


class Row(NamedTuple):
    """The JSON text of an array; `deleted` is a row of a table that is gone."""

    text: bytes
    deleted: bool = False


class Rows:
    """Makes rows of what reaches the end of a question's plan: events, or changes of a table."""

    def __init__(self, ask: Ask) -> None:
        self._cells = _cells(ask.query.sink.relation, [column.name for column in ask.columns])
        self._written = row_writer([column.type for column in ask.columns])

        self._deletes = ask.query.sink.relation.kind is Kind.TABLE

    def of(self, entries: Iterable[Sequence[Any]]) -> list[Row]:
        """A stream has no rows without values."""
        return [self.row(entry[1], entry[2]) for entry in entries if self._deletes or entry[2] is not None]

    def row(self, key: Key, row: Any) -> Row:
        cells = self._cells(key, row)
        return Row(dumps(cells if self._written is None else self._written(cells)), row is None)


def _cells(relation: Relation, names: Sequence[str]) -> Cells:
    """One expression for all columns: this is done for every row."""
    places = {field.name: f"row[{i}]" for i, field in enumerate(relation.value)}
    places |= {field.name: f"key[{i}]" for i, field in enumerate(relation.key)}
    if relation.window is not None:
        places |= {name: f"key[-1][{i}]" for i, name in enumerate(e.BOUNDS)}
    there = ", ".join(places[name] for name in names)
    gone = ", ".join(places[name] if places[name].startswith("key") else "None" for name in names)
    keyless = ", ".join("None" if places[name].startswith("key") else places[name] for name in names)
    return eval(f"lambda key, row: [{gone}] if row is None else [{keyless}] if key is None else [{there}]")
