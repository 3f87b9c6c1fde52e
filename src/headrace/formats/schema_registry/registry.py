"""Schema registries: the contract, and an implementation in memory.

A *subject* (a topic's keys or values) has *versions* 1, 2, 3 ...; each is a schema text of a type, and every distinct
schema has one *id*, which payloads carry. Ids and versions are assigned in order, never change and are never reused.
Registering a schema that the subject already has changes nothing and returns the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.component import Option
from headrace.errors import BadRecord, UnknownSchema
from headrace.formats.schema_registry.client import HttpRegistry
from headrace.formats.schema_registry.state import Kind, Version
from headrace.formats.schema_registry.store import MemoryJournal, StoredRegistry

__all__ = ["HttpRegistry", "Kind", "MemoryRegistry", "Registry", "Subject", "Version", "framed", "subject", "unframed"]


class Registry(Protocol):
    """What serdes need from a registry. Thread-safe."""

    def register(self, subject: str, text: str, kind: Kind) -> int: ...
    def schema(self, schema_id: int) -> tuple[str, Kind]: ...
    def latest(self, subject: str) -> Version: ...
    def versions(self, subject: str) -> list[Version]: ...
    def subjects(self) -> list[str]: ...


class MemoryRegistry(StoredRegistry):
    """A registry with the lifetime of the process. Unless it is `strict` it accepts any text as a schema."""

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__(MemoryJournal(), strict=strict)


SHARED = MemoryRegistry()
"""The default registry of a process."""

REGISTRY_OPTIONS = (
    Option(
        "registry",
        HttpRegistry,
        "The schema registry, like http://127.0.0.1:8081; if none is given, one that lasts as long as the process.",
        None,
    ),
    Option("topic", str, "The topic whose schemas these are.", ""),
)


# -- payloads with a schema id --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """The keys or the values of a topic, in a registry."""

    registry: Registry
    name: str

    def id_of(self, text: str, kind: Kind) -> int:
        return self.registry.register(self.name, text, kind)

    def schema(self, schema_id: int, kind: Kind) -> str:
        """The text of a payload's schema."""
        try:
            text, actual = self.registry.schema(schema_id)
        except UnknownSchema as error:
            raise BadRecord(f"the payload's schema is unknown: {error.what}", fix=error.fix) from None
        if actual != kind:
            raise BadRecord(f"the payload's schema is {actual}, not {kind}", fix=f"declare the format as {actual}")
        return text


def subject(registry: Registry, topic: str, *, is_key: bool) -> Subject:
    """Named after the topic, as all registry clients do."""
    return Subject(registry, f"{topic}-{'key' if is_key else 'value'}")


def framed(schema_id: int, body: bytes) -> bytes:
    """A body prefixed with the header of its schema: a zero byte and four bytes of id."""
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def unframed(payload: bytes) -> tuple[int, bytes]:
    if len(payload) < 5 or payload[0] != 0:
        raise BadRecord(
            "the payload does not begin with the id of a schema",
            fix="write it with a serializer that uses the schema registry",
        )
    return int.from_bytes(payload[1:5], "big"), payload[5:]
