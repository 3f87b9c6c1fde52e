"""Relations: what flows between the nodes of a plan, and how a topic's bytes become its columns.

A stream is a sequence of facts; a table is the last row per key, and what flows is its changes. Key values are not
repeated among the values; an expression may name both, and the pseudo columns of `expressions.PSEUDO`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headrace.schema import Field


class Kind(StrEnum):
    STREAM = "stream"
    TABLE = "table"


class WindowKind(StrEnum):
    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SLIDING = "sliding"
    SESSION = "session"


@dataclass(frozen=True)
class Window:
    """How rows of a key are grouped by time. `grace` is how long after its end a window still accepts late rows.

    A session has no size: it lasts until `gap` passes without a row. `advance` is the hop; for a tumbling window it is
    the size. A hop longer than the size is sampling: rows between two windows belong to none. A sliding window has no
    hop: each row ends one. When `idle` has passed without a row of any key, all open windows close.
    """

    kind: WindowKind
    size: timedelta | None = None
    advance: timedelta | None = None
    gap: timedelta | None = None
    grace: timedelta | None = None
    retention: timedelta | None = None
    idle: timedelta | None = None


@dataclass(frozen=True)
class Relation:
    """The output of a node. With a `window` the key's last part, unnamed, is the window's (start, end) in ms."""

    kind: Kind
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    window: Window | None = None

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.key + self.value

    def column(self, name: str) -> Field | None:
        return next((f for f in self.columns if f.name == name), None)


@dataclass(frozen=True)
class Format:
    """How bytes become columns: a serde's name (`JSON`, `DELIMITED`, `KAFKA` ...) and its options."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str, otherwise: Any = None) -> Any:
        return dict(self.options).get(name, otherwise)


@dataclass(frozen=True)
class Timestamp:
    """The column that holds a record's time: milliseconds, a TIMESTAMP, or text in `format`."""

    column: str
    format: str | None = None


class System(StrEnum):
    """Columns that come from the record's envelope."""

    PARTITION = "partition"
    OFFSET = "offset"
    HEADERS = "headers"
    HEADER = "header"


@dataclass(frozen=True)
class SystemColumn:
    name: str
    kind: System
    header: str | None = None


def payload(relation: Relation, system: tuple[SystemColumn, ...]) -> tuple[Field, ...]:
    """Returns the columns of a source's payload: its values without the envelope columns, which come last."""
    return relation.value[: len(relation.value) - len(system)]
