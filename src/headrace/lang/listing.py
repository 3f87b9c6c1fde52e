"""The data model of every metadata result: facts, tables and longer texts, each with two names.

`name` is the field in ksqlDB's JSON, so that a server returns `Listing.entity()` as it is; `heading` is for display.
Items without a heading are only in the JSON, items without a name only in the display. Values are raw: the renderer
quotes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

Document = dict[str, Any]


@dataclass(frozen=True)
class TypeCell:
    """A cell that contains a type, followed by a remark such as `(key)`."""

    type: pa.DataType
    mark: str = ""


@dataclass(frozen=True)
class Fact:
    """One value; `is_name` says that it is an identifier, which may need quotes."""

    name: str
    heading: str
    value: Any
    is_name: bool = False

    def unseen(self) -> Fact:
        """Returns the same fact for the JSON only."""
        return replace(self, heading="")


@dataclass(frozen=True)
class Column:
    """A column of a table. Its cells are identifiers if `is_name`."""

    name: str
    heading: str = ""
    is_name: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under `columns`. With `inline` each row is one line, as `heading: value, heading: value`."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""
    inline: bool = False

    def unseen(self) -> Table:
        """Returns the same table for the JSON only."""
        return replace(self, columns=tuple(replace(column, heading="") for column in self.columns))

    def documents(self) -> list[Document]:
        """Returns the rows as objects."""
        return [{c.name: v for c, v in zip(self.columns, row, strict=True) if c.name} for row in self.rows]


@dataclass(frozen=True)
class Listing:
    """A result. `kind` is ksqlDB's `@type`; `parts`, in the field `parts_name`, are nested results.

    `texts` are displayed below the tables, each under its heading; `notes` last, in the display only. The fields of a
    `nested` result are in one field with the name of the kind.
    """

    kind: str
    statement: str = ""
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
    texts: tuple[Fact, ...] = ()
    parts: tuple[Listing, ...] = ()
    parts_name: str = ""
    notes: tuple[str, ...] = ()
    nested: bool = False

    def entity(self) -> Document:
        """Returns the result as in ksqlDB's REST API."""
        body = self.body()
        inside = {self.kind: body} if self.nested else body
        return {"@type": self.kind, "statementText": self.statement, **inside, "warnings": []}

    def body(self) -> Document:
        """Returns only its own fields."""
        return dict(self._fields())

    def _fields(self) -> Iterator[tuple[str, Any]]:
        yield from ((fact.name, fact.value) for fact in (*self.facts, *self.texts) if fact.name)
        yield from ((table.name, table.documents()) for table in self.tables if table.name)
        if self.parts_name:
            yield self.parts_name, [part.body() for part in self.parts]


def unique_notes(parts: tuple[Listing, ...]) -> tuple[Listing, ...]:
    """Keeps only the last of equal notes."""
    return tuple(replace(part, notes=()) for part in parts[:-1]) + parts[-1:]
