"""The shape of every answer: facts, tables and longer texts, each with two names.

`name` is the field's in ksqlDB's JSON, so that a server gives out `Listing.entity()` as it is; `heading` is what people
read. What has no heading is for programs only, what has no name for people only. Values are raw: the text quotes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

Document = dict[str, Any]


@dataclass(frozen=True)
class Typed:
    """A cell that is a type, with a remark behind it, such as `(key)`."""

    type: pa.DataType
    mark: str = ""


@dataclass(frozen=True)
class Fact:
    """One value; `is_name` says that it is a name of the language, which may need quotes."""

    name: str
    heading: str
    value: Any
    is_name: bool = False

    def unseen(self) -> Fact:
        """The same for programs only."""
        return replace(self, heading="")


@dataclass(frozen=True)
class Column:
    """Of a table. Its cells are names of the language if `is_name`."""

    name: str
    heading: str = ""
    is_name: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under `columns`. With `inline` each is shown on a line of its own, as `heading: value, heading: value`."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""
    inline: bool = False

    def unseen(self) -> Table:
        """The same for programs only."""
        return replace(self, columns=tuple(replace(column, heading="") for column in self.columns))

    def documents(self) -> list[Document]:
        """The rows as objects."""
        return [{c.name: v for c, v in zip(self.columns, row, strict=True) if c.name} for row in self.rows]


@dataclass(frozen=True)
class Listing:
    """An answer. `kind` is ksqlDB's `@type`; `parts`, in the field `parts_name`, are answers inside of it.

    `texts` are shown below the tables, each under its heading; `notes` last, to people only. The fields of a `nested`
    answer stand together in one field of the kind's name.
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
        """The answer as ksqlDB's REST interface has it."""
        body = self.body()
        inside = {self.kind: body} if self.nested else body
        return {"@type": self.kind, "statementText": self.statement, **inside, "warnings": []}

    def body(self) -> Document:
        """Only its own fields."""
        return dict(self._fields())

    def _fields(self) -> Iterator[tuple[str, Any]]:
        yield from ((fact.name, fact.value) for fact in (*self.facts, *self.texts) if fact.name)
        yield from ((table.name, table.documents()) for table in self.tables if table.name)
        if self.parts_name:
            yield self.parts_name, [part.body() for part in self.parts]


def once(parts: tuple[Listing, ...]) -> tuple[Listing, ...]:
    """Of the same note only the last."""
    return tuple(replace(part, notes=()) for part in parts[:-1]) + parts[-1:]
