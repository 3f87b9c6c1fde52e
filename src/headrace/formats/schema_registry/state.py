"""A registry's state: rows by key, and the indexes over them. A pure fold without I/O.

Every fact is a row under its own key, so that the latest row of each key is the whole state, and a compacted topic can
hold it:

    ("schema", subject, version)   a version; no value: it is permanently deleted
    ("level", subject)             its compatibility level; the subject "" is the registry itself
    ("mode", subject)              READWRITE or READONLY
    ("last", subject)              the highest version ever assigned, so that none is assigned twice
    ("head",)                      the number of the change, and the highest id ever assigned

Every change also writes "head", which identifies the last change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["AVRO", "PROTOBUF", "JSON"]
KINDS: tuple[Kind, ...] = ("JSON", "PROTOBUF", "AVRO")
MODES = ("READWRITE", "READONLY")
REGISTRY = ""  # in place of a subject: the registry itself

Row = tuple[tuple[Any, ...], dict[str, Any] | None]
"""A key and its new value; None deletes the key."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    subject: str
    number: int
    id: int
    text: str
    kind: Kind
    deleted: bool = False

    def row(self, *, deleted: bool | None = None) -> Row:
        is_deleted = self.deleted if deleted is None else deleted
        value = {"id": self.id, "kind": self.kind, "schema": self.text, "deleted": is_deleted}
        return ("schema", self.subject, self.number), value


@dataclass
class RegistryState:
    number: int = 0
    last_id: int = 0
    last_versions: dict[str, int] = field(default_factory=dict)
    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    schemas: dict[int, tuple[str, Kind]] = field(default_factory=dict)
    ids: dict[tuple[str, Kind], int] = field(default_factory=dict)

    def apply(self, row: Row) -> None:
        (name, *at), value = row
        getattr(self, f"_apply_{name}")(*at, value)

    def _apply_head(self, value: dict[str, Any]) -> None:
        self.number, self.last_id = value["number"], value["id"]

    def _apply_last(self, subject: str, value: dict[str, Any]) -> None:
        self.last_versions[subject] = value["version"]

    def _apply_level(self, subject: str, value: dict[str, Any] | None) -> None:
        _set_or_remove(self.levels, subject, value["level"] if value else None)

    def _apply_mode(self, subject: str, value: dict[str, Any] | None) -> None:
        _set_or_remove(self.modes, subject, value["mode"] if value else None)

    def _apply_schema(self, subject: str, number: int, value: dict[str, Any] | None) -> None:
        if value is None:
            self._forget(subject, number)
            return
        version = Version(subject, number, value["id"], value["schema"], value["kind"], value["deleted"])
        self.subjects.setdefault(subject, {})[number] = version
        self.schemas.setdefault(version.id, (version.text, version.kind))
        self.ids.setdefault((identity(version.text, version.kind), version.kind), version.id)

    def _forget(self, subject: str, number: int) -> None:
        versions = self.subjects.get(subject, {})
        version = versions.pop(number, None)
        if not versions:
            self.subjects.pop(subject, None)
        if version is not None and not self.uses(version.id):
            text, kind = self.schemas.pop(version.id)
            del self.ids[identity(text, kind), kind]

    def uses(self, schema_id: int) -> list[Version]:
        """The versions with the schema of that id, including deleted ones."""
        every = (version for versions in self.subjects.values() for version in versions.values())
        return [version for version in every if version.id == schema_id]

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject in order; deleted ones only on request."""
        versions = sorted(self.subjects.get(subject, {}).values(), key=lambda version: version.number)
        return [version for version in versions if deleted or not version.deleted]


def _set_or_remove(values: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


# -- equality of schema texts ---------------------------------------------------------------------------------------

_PROTO_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.]+|\S)""", re.DOTALL)


def identity(text: str, kind: Kind) -> str:
    """A canonical text: the same for schemas that differ only in spacing, comments and the order of JSON keys."""
    if kind == "PROTOBUF":
        return without_noise(text)
    try:
        value = json.loads(text)
        return json.dumps(_bare(value) if kind == "AVRO" else value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _bare(schema: Any) -> Any:
    """Avro's types without redundant wrappers: `{"type": "int"}` is `"int"`."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return _bare(schema["type"]) if {*schema} == {"type"} else {name: _bare(part) for name, part in schema.items()}


def without_noise(text: str) -> str:
    """Protobuf's text without comments, and with one space between any two tokens."""
    return " ".join(filter(None, _PROTO_TOKEN.findall(text)))
