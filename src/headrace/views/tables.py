"""The SQL of a view in SQLite. Names and values of users never stand in it: columns are numbered, values are bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.plan.expressions import ROWTIME, WINDOWEND, WINDOWSTART, Compare
from headrace.plan.nodes import Relation
from headrace.plan.selection import Alternative, Bound, Selection
from headrace.plan.types import BIGINT
from headrace.views.columns import Columns, NotSought, sought

MOST_VALUES = 10_000
"""Values that are bound in one statement; SQLite takes three times as many."""


@dataclass(frozen=True)
class Table:
    """The table `rows`. Its columns have no type, so SQLite keeps each value as it was given, -0.0 as well."""

    relation: Relation
    name: str = "rows"

    @cached_property
    def keys(self) -> Columns:
        return Columns(self.relation.key, in_key=True)

    @cached_property
    def values(self) -> Columns:
        return Columns(self.relation.value)

    @property
    def windowed(self) -> bool:
        return self.relation.window is not None

    @cached_property
    def key_names(self) -> list[str]:
        return [f"k{i}" for i, _ in enumerate(self.relation.key)] + (["ws", "we"] if self.windowed else [])

    @cached_property
    def value_names(self) -> list[str]:
        return [f"v{i}" for i, _ in enumerate(self.relation.value)]

    @cached_property
    def places(self) -> Mapping[str, tuple[str, pa.DataType]]:
        """By the name in conditions: the column and its type. A value's name hides a key's, as in the chain."""
        pseudo = {ROWTIME: ("time", BIGINT)}
        if self.windowed:
            pseudo |= {WINDOWSTART: ("ws", BIGINT), WINDOWEND: ("we", BIGINT)}
        named = zip((*self.key_names[: len(self.relation.key)], *self.value_names), self.relation.columns, strict=True)
        found = [(field.name, (name, field.type)) for name, field in named]
        keys = len(self.relation.key)
        return {**pseudo, **dict(found[:keys]), **dict(found[keys:])}

    # -- statements -------------------------------------------------------------------------------------------------

    @cached_property
    def create(self) -> list[str]:
        columns = [*self.key_names, "time", "version", *self.value_names]
        made = f"CREATE TABLE rows ({', '.join(columns)}, PRIMARY KEY ({', '.join(self.key_names)})) WITHOUT ROWID"
        return [made, *(["CREATE INDEX ends ON rows (we)"] if self.windowed else [])]

    @cached_property
    def put(self) -> str:
        columns = [*self.key_names, "time", "version", *self.value_names]
        marks = ", ".join("?" * len(columns))
        return f"INSERT OR REPLACE INTO rows ({', '.join(columns)}) VALUES ({marks})"

    @cached_property
    def delete(self) -> str:
        return f"DELETE FROM rows WHERE {self._whole_key}"

    @cached_property
    def get(self) -> str:
        return f"{self._select} WHERE {self._whole_key}"

    @cached_property
    def _whole_key(self) -> str:
        return " AND ".join(f"{name} = ?" for name in self.key_names)

    @cached_property
    def _select(self) -> str:
        return f"SELECT {', '.join(['time', *self.key_names, *self.value_names])} FROM {self.name}"

    def scan(self, selection: Selection) -> tuple[str, list[Any]]:
        """A statement for all rows that are selected, and its values. What cannot be bound is not selected by."""
        alternatives = [self._all_of(alternative) for alternative in selection.alternatives]
        values = [value for _, own in alternatives for value in own]
        if any(not text for text, _ in alternatives) or len(values) > MOST_VALUES:
            return self._select, []
        either = " OR ".join(f"({text})" for text, _ in alternatives) or "false"
        return f"{self._select} WHERE {either}", values

    def _all_of(self, alternative: Alternative) -> tuple[str, list[Any]]:
        texts, values = [], list[Any]()
        for bound in alternative:
            try:
                text, own = self._bound(bound)
            except (NotSought, KeyError):
                continue
            texts.append(text)
            values += own
        return " AND ".join(texts), values

    def _bound(self, bound: Bound) -> tuple[str, list[Any]]:
        name, kind = self.places[bound.column]
        values = [sought(kind, value) for value in bound.values]
        if bound.op is Compare.EQUAL:
            return f"{name} IN ({', '.join('?' * len(values))})", values
        return f"{name} {bound.op} ?", values

    # -- rows -------------------------------------------------------------------------------------------------------

    def stored_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*self.keys.stored(key[:-1]), *key[-1]) if self.windowed else self.keys.stored(key)

    def events(self, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows of `get` and `scan` in the chain's form."""
        end = 1 + len(self.relation.key)
        keys, values = self.keys.loaded, self.values.loaded
        if self.windowed:
            return [(row[0], (*keys(row[1:end]), row[end : end + 2]), values(row[end + 2 :])) for row in found]
        return [(row[0], keys(row[1:end]), values(row[end:])) for row in found]
