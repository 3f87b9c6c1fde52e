"""Grants: a deed on things of a kind, by a name or by how names begin (`ORDERS`, `eu-*`, `*`).

A grant to read streams and tables may have a condition over their columns: then only such rows are seen. Topics have no
columns; who may read a topic sees all of it, and all of each stream and table that stands on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headrace.access.who import ADMIN
from headrace.contracts import dead_letter_topic
from headrace.errors import BadGrant

_PATTERN = re.compile(r"[^*\s\"'`]{1,249}\*?|\*")
_DEAD = dead_letter_topic("")


class Deed(StrEnum):
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DROP = "drop"
    CONTROL = "control"
    """Pause, resume, restart and end queries; move groups; discard dead letters."""


class Kind(StrEnum):
    TOPIC = "topic"
    SOURCE = "source"
    """A stream or table, and the query that fills it. Names are in capitals, unless they were quoted."""
    TYPE = "type"
    GROUP = "group"


class Thing(NamedTuple):
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


def topic(name: str) -> Thing:
    return Thing(Kind.TOPIC, name)


def source(name: str) -> Thing:
    return Thing(Kind.SOURCE, name)


@dataclass(frozen=True)
class Grant:
    """`where` is a condition of KSQL over the source's columns."""

    deed: Deed
    kind: Kind
    pattern: str
    where: str | None = None

    @classmethod
    def of(cls, deed: str, kind: str, pattern: str, where: str | None = None) -> Grant:
        """From words, or why they are none."""
        if deed not in list(Deed) or kind not in list(Kind):
            known = f"deeds are {', '.join(Deed)}; kinds of things are {', '.join(Kind)}"
            raise BadGrant(f'nobody can "{deed}" a "{kind}"', fix=known)
        if not _PATTERN.fullmatch(pattern):
            raise BadGrant(f'"{pattern[:80]}" is no name', fix="write a name, how names begin and *, or * for all")
        if where is not None and (deed, kind) != (Deed.READ, Kind.SOURCE):
            raise BadGrant("only reading streams and tables can have a condition", fix="grant: read source NAME")
        if where is not None and not where.strip():
            raise BadGrant("the condition is empty", fix="write one, like REGION = 'EU', or leave it out")
        return cls(Deed(deed), Kind(kind), pattern, where)

    def covers(self, deed: Deed, thing: Thing) -> bool:
        return self.deed is deed and self.kind is thing.kind and self._names(thing)

    def _names(self, thing: Thing) -> bool:
        """Dead letters are rows of other topics: how a name begins does not say who may see these."""
        if self.pattern == "*" or self.pattern == thing.name:
            return True
        is_dead = thing.kind is Kind.TOPIC and thing.name.endswith(_DEAD)
        return self.pattern.endswith("*") and not is_dead and thing.name.startswith(self.pattern[:-1])

    def __str__(self) -> str:
        return f"{self.deed} {self.kind} {self.pattern}" + (f" where {self.where}" if self.where else "")


def _all(*deeds: Deed) -> tuple[Grant, ...]:
    return tuple(Grant(deed, kind, "*") for deed in deeds for kind in Kind)


ROLES: Mapping[str, tuple[Grant, ...]] = {
    ADMIN: _all(*Deed),
    "writer": _all(*Deed),
    "reader": _all(Deed.READ),
}
"""Roles that are always there. An admin also changes access, sends code and sees the journal."""
