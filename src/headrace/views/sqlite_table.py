"""The SQL of a view in SQLite. It never contains names or values from users: columns are numbered, values are bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.plan.analysis.lookup import Alternative, Bound, Selection
from headrace.plan.expressions import ROWTIME, WINDOWEND, WINDOWSTART, Compare
from headrace.plan.relations import Relation
from headrace.plan.types import BIGINT
from headrace.views.column_encoding import ColumnCodec, NotSearchable, search_value

MAX_BOUND_VALUES = 10_000
"""Most values bound in one statement; SQLite's limit is three times as high."""


@dataclass(frozen=True)
class SqliteTable:
    """The table `rows`. Its columns have no type, so SQLite stores each value unchanged, -0.0 as well."""

    relation: Relation
    name: str = "rows"

    @cached_property
    def keys(self) -> ColumnCodec:
        return ColumnCodec(self.relation.key, in_key=True)

    @cached_property
    def values(self) -> ColumnCodec:
        return ColumnCodec(self.relation.value)

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
        """By name in conditions: the column and its type. A value column hides a key column of the same name."""
        pseudo = {ROWTIME: ("time", BIGINT)}
        if self.windowed:
            pseudo |= {WINDOWSTART: ("ws", BIGINT), WINDOWEND: ("we", BIGINT)}
        named = zip((*self.key_names[: len(self.relation.key)], *self.value_names), self.relation.columns, strict=True)
        columns = [(field.name, (name, field.type)) for name, field in named]
        keys = len(self.relation.key)
        return {**pseudo, **dict(columns[:keys]), **dict(columns[keys:])}

    # -- statements -------------------------------------------------------------------------------------------------

    @cached_property
    def create(self) -> list[str]:
        columns = [*self.key_names, "time", "version", *self.value_names]
        create_table = (
            f"CREATE TABLE rows ({', '.join(columns)}, PRIMARY KEY ({', '.join(self.key_names)})) WITHOUT ROWID"
        )
        return [create_table, *(["CREATE INDEX ends ON rows (we)"] if self.windowed else [])]

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
        """Returns a statement for all selected rows, and its values. Conditions that cannot be bound are ignored."""
        alternatives = [self._all_of(alternative) for alternative in selection.alternatives]
        values = [value for _, own in alternatives for value in own]
        if any(not text for text, _ in alternatives) or len(values) > MAX_BOUND_VALUES:
            return self._select, []
        either = " OR ".join(f"({text})" for text, _ in alternatives) or "false"
        return f"{self._select} WHERE {either}", values

    def _all_of(self, alternative: Alternative) -> tuple[str, list[Any]]:
        texts, values = [], list[Any]()
        for bound in alternative:
            try:
                text, own = self._bound(bound)
            except (NotSearchable, KeyError):
                continue
            texts.append(text)
            values += own
        return " AND ".join(texts), values

    def _bound(self, bound: Bound) -> tuple[str, list[Any]]:
        name, kind = self.places[bound.column]
        values = [search_value(kind, value) for value in bound.values]
        if bound.op is Compare.EQUAL:
            return f"{name} IN ({', '.join('?' * len(values))})", values
        return f"{name} {bound.op} ?", values

    # -- rows -------------------------------------------------------------------------------------------------------

    def stored_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*self.keys.stored(key[:-1]), *key[-1]) if self.windowed else self.keys.stored(key)

    def events(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows of `get` and `scan` in the chain's form."""
        end = 1 + len(self.relation.key)
        keys, values = self.keys.loaded, self.values.loaded
        if self.windowed:
            return [(row[0], (*keys(row[1:end]), row[end : end + 2]), values(row[end + 2 :])) for row in rows]
        return [(row[0], keys(row[1:end]), values(row[end:])) for row in rows]
