"""Grants: a privilege on resources of a type, by name or by name prefix (`ORDERS`, `eu-*`, `*`).

A READ grant on streams and tables may have a condition over their columns; then only matching rows are visible. Topics
have no columns: READ on a topic shows all of it, and all rows of each stream and table over it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headrace.access.principal import ADMIN
from headrace.contracts import dead_letter_topic
from headrace.errors import BadGrant

_PATTERN = re.compile(r"[^*\s\"'`]{1,249}\*?|\*")
_DEAD = dead_letter_topic("")


class Privilege(StrEnum):
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DROP = "drop"
    CONTROL = "control"
    """Pause, resume, restart and stop queries; reset groups; discard dead letters."""


class ResourceType(StrEnum):
    TOPIC = "topic"
    SOURCE = "source"
    """A stream or table, and the query that writes it. Names are in upper case unless they were quoted."""
    TYPE = "type"
    GROUP = "group"


class Resource(NamedTuple):
    kind: ResourceType
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


def topic_resource(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def source_resource(name: str) -> Resource:
    return Resource(ResourceType.SOURCE, name)


@dataclass(frozen=True)
class Grant:
    """`where` is a KSQL condition over the source's columns."""

    privilege: Privilege
    kind: ResourceType
    pattern: str
    where: str | None = None

    @classmethod
    def of(cls, privilege: str, kind: str, pattern: str, where: str | None = None) -> Grant:
        """Parse a grant; raises an error that says what is invalid."""
        if privilege not in list(Privilege) or kind not in list(ResourceType):
            known = f"privileges are {', '.join(Privilege)}; resource types are {', '.join(ResourceType)}"
            raise BadGrant(f'the privilege "{privilege}" on "{kind}" does not exist', fix=known)
        if not _PATTERN.fullmatch(pattern):
            raise BadGrant(
                f'"{pattern[:80]}" is not a valid name pattern',
                fix="write a name, a prefix followed by *, or * for all names",
            )
        if where is not None and (privilege, kind) != (Privilege.READ, ResourceType.SOURCE):
            raise BadGrant("a condition is valid only for reading streams and tables", fix="grant: read source NAME")
        if where is not None and not where.strip():
            raise BadGrant("the condition is empty", fix="write a condition such as REGION = 'EU', or omit it")
        return cls(Privilege(privilege), ResourceType(kind), pattern, where)

    def covers(self, privilege: Privilege, resource: Resource) -> bool:
        return self.privilege is privilege and self.kind is resource.kind and self._names(resource)

    def _names(self, resource: Resource) -> bool:
        """A prefix does not cover dead-letter topics: they hold rows of topics with rights of their own."""
        if self.pattern == "*" or self.pattern == resource.name:
            return True
        is_dead = resource.kind is ResourceType.TOPIC and resource.name.endswith(_DEAD)
        return self.pattern.endswith("*") and not is_dead and resource.name.startswith(self.pattern[:-1])

    def __str__(self) -> str:
        return f"{self.privilege} {self.kind} {self.pattern}" + (f" where {self.where}" if self.where else "")


def all_resources(*privileges: Privilege) -> tuple[Grant, ...]:
    """Grants of the privileges on everything."""
    return tuple(Grant(privilege, kind, "*") for privilege in privileges for kind in ResourceType)


ROLES: Mapping[str, tuple[Grant, ...]] = {
    ADMIN: all_resources(*Privilege),
    "writer": all_resources(*Privilege),
    "reader": all_resources(Privilege.READ),
}
"""Built-in roles. An admin also changes access, deploys code and reads the audit log."""
