"""A schema registry over a journal of changes: register, look up, delete, configure.

A change is decided on the current state and becomes rows, which the journal stores atomically. A journal may ask for
the decision again if the state has changed meanwhile, so deciding has no side effects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from headrace.errors import (
    AlreadySoftDeleted,
    BadCompatibility,
    BadMode,
    BadSchema,
    BadVersion,
    IncompatibleSchema,
    NotConfigured,
    NotSoftDeleted,
    RegistryReadOnly,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)
from headrace.formats.schema_registry.compatibility import DEFAULT_LEVEL, LEVELS, check_schema, problems
from headrace.formats.schema_registry.state import KINDS, MODES, REGISTRY, Kind, RegistryState, Row, Version, identity

T = TypeVar("T")
Decide = Callable[[RegistryState], tuple[list[Row], T]]
_MOST_SUBJECT = 249 + len("-value")


class RegistryJournal(Protocol):
    """Stores the rows of changes. Thread-safe."""

    def read(self, use: Callable[[RegistryState], T]) -> T:
        """Read the state after all acknowledged changes."""
        ...

    def change(self, decide: Decide[T]) -> T:
        """Decide, and store the resulting rows; no other change happens in between."""
        ...


class MemoryJournal:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = RegistryState()

    def read(self, use: Callable[[RegistryState], T]) -> T:
        with self._lock:
            return use(self._state)

    def change(self, decide: Decide[T]) -> T:
        with self._lock:
            rows, result = decide(self._state)
            for row in with_change_number(rows, self._state):
                self._state.apply(row)
            return result


def with_change_number(rows: Iterable[Row], state: RegistryState) -> list[Row]:
    """The rows of a change with its number; no rows are no change."""
    changes = list(rows)
    if not changes:
        return []
    ids = [value["id"] for (name, *_), value in changes if name == "schema" and value]
    return [*changes, (("head",), {"number": state.number + 1, "id": max([state.last_id, *ids])})]


class StoredRegistry:
    """The operations of a registry. Unless it is `strict` it accepts any text, as other registries may hold."""

    def __init__(self, journal: RegistryJournal, *, strict: bool = True) -> None:
        self._journal = journal
        self._strict = strict

    # -- schemas ----------------------------------------------------------------------------------------------------

    def register(self, subject: str, text: str, kind: Kind) -> int:
        """Returns the schema's id; a schema that the subject already has changes nothing."""
        self._check(text, kind)
        if not 0 < len(subject) <= _MOST_SUBJECT:
            raise BadSchema(f'"{subject[:80]}" is not a valid subject', fix=f"use 1 to {_MOST_SUBJECT} characters")
        return self._journal.change(lambda state: self._registered(state, subject, text, kind))

    def _registered(self, state: RegistryState, subject: str, text: str, kind: Kind) -> tuple[list[Row], int]:
        versions = state.versions(subject)
        registered = _same(versions, text, kind)
        if registered is not None:
            return [], registered.id
        _check_writable(state, subject)
        if self._strict:
            _refuse(subject, problems(text, kind, versions, _level(state, subject)))
        schema_id = state.ids.get((identity(text, kind), kind), state.last_id + 1)
        text, _ = state.schemas.get(schema_id, (text, kind))  # an id always has the same text
        number = state.last_versions.get(subject, 0) + 1
        version = Version(subject, number, schema_id, text, kind)
        return [version.row(), (("last", subject), {"version": number})], schema_id

    def problems(self, subject: str, text: str, kind: Kind, version: int | str | None = None) -> list[str]:
        """Why the schema is incompatible with the subject, or with one version of it. Changes nothing."""
        self._check(text, kind)

        def look(state: RegistryState) -> list[str]:
            level = _level(state, subject)
            if version is None:
                return problems(text, kind, state.versions(subject), level)
            return problems(text, kind, [_version(state, subject, version)], level)

        return self._journal.read(look)

    def _check(self, text: str, kind: Kind) -> None:
        if kind not in KINDS:
            raise BadSchema(f'schema type "{kind}" does not exist', fix=f"use one of {', '.join(KINDS)}")
        if self._strict:
            check_schema(text, kind)

    def schema(self, schema_id: int) -> tuple[str, Kind]:
        schema = self._journal.read(lambda state: state.schemas.get(schema_id))
        if schema is None:
            raise UnknownSchema(f"schema {schema_id} does not exist", fix="register the schema first")
        return schema

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """The versions with the schema of that id."""
        self.schema(schema_id)
        versions = self._journal.read(lambda state: state.uses(schema_id))
        return [version for version in versions if deleted or not version.deleted]

    # -- subjects and versions --------------------------------------------------------------------------------------

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return self._journal.read(lambda s: sorted(name for name in s.subjects if s.versions(name, deleted=deleted)))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        return self._journal.read(lambda state: _versions(state, subject, deleted=deleted))

    def version(self, subject: str, number: int | str, *, deleted: bool = False) -> Version:
        return self._journal.read(lambda state: _version(state, subject, number, deleted=deleted))

    def latest(self, subject: str) -> Version:
        return self.version(subject, "latest")

    def find(self, subject: str, text: str, kind: Kind, *, deleted: bool = False) -> Version:
        """The version of the subject with this schema."""
        self._check(text, kind)
        version = _same(self.versions(subject, deleted=deleted), text, kind)
        if version is None:
            raise UnknownSchema(f'subject "{subject}" has no such schema', fix="register it first")
        return version

    def delete_version(self, subject: str, number: int | str, *, permanent: bool = False) -> int:
        """Soft-delete a version, or delete a soft-deleted one permanently. Its number is never reused."""

        def decide(state: RegistryState) -> tuple[list[Row], int]:
            _check_writable(state, subject)
            version = _version(state, subject, number, deleted=True)
            _check_order([version], permanent, f'version {version.number} of subject "{subject}"')
            return [_deleted(version, permanent)], version.number

        return self._journal.change(decide)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """The same for all versions; returns their numbers."""

        def decide(state: RegistryState) -> tuple[list[Row], list[int]]:
            _check_writable(state, subject)
            versions = _versions(state, subject, deleted=True)
            remaining = versions if permanent else [version for version in versions if not version.deleted]
            _check_order(remaining, permanent, f'subject "{subject}"')
            rows: list[Row] = [_deleted(version, permanent) for version in remaining]
            settings = (("level", state.levels), ("mode", state.modes))
            rows += [((name, subject), None) for name, values in settings if subject in values]
            return rows, [version.number for version in remaining]

        return self._journal.change(decide)

    # -- settings ---------------------------------------------------------------------------------------------------

    def level(self, subject: str = REGISTRY, *, or_default: bool = True) -> str:
        """The compatibility level; a subject without its own level has that of the registry."""
        return self._journal.read(lambda state: _setting(state.levels, subject, DEFAULT_LEVEL, or_default))

    def set_level(self, level: str, subject: str = REGISTRY) -> None:
        if level not in LEVELS:
            raise BadCompatibility(f'"{level}" is not a compatibility level', fix=f"use one of {', '.join(LEVELS)}")
        self._journal.change(lambda state: ([(("level", subject), {"level": level})], None))

    def clear_level(self, subject: str = REGISTRY) -> str:
        """Reset to the default; returns the previous level."""
        return self._journal.change(lambda s: _cleared("level", s.levels, subject, DEFAULT_LEVEL))

    def mode(self, subject: str = REGISTRY, *, or_default: bool = True) -> str:
        return self._journal.read(lambda state: _setting(state.modes, subject, MODES[0], or_default))

    def set_mode(self, mode: str, subject: str = REGISTRY) -> None:
        if mode not in MODES:
            raise BadMode(f'mode "{mode}" does not exist', fix=f"use one of {', '.join(MODES)}")
        self._journal.change(lambda state: ([(("mode", subject), {"mode": mode})], None))

    def clear_mode(self, subject: str = REGISTRY) -> str:
        return self._journal.change(lambda s: _cleared("mode", s.modes, subject, MODES[0]))


# -- lookups in a state ---------------------------------------------------------------------------------------------


def _versions(state: RegistryState, subject: str, *, deleted: bool = False) -> list[Version]:
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise UnknownSubject(f'subject "{subject}" does not exist', fix="register a schema for it first")
    return versions


def _version(state: RegistryState, subject: str, number: int | str, *, deleted: bool = False) -> Version:
    if number == "latest":
        return _versions(state, subject)[-1]
    if not isinstance(number, int) or not 0 < number < 1 << 31:
        raise BadVersion(f'"{number}" is not a version', fix='use a number of at least 1, or "latest"')
    versions = {version.number: version for version in _versions(state, subject, deleted=deleted)}
    if number not in versions:
        known = ", ".join(map(str, versions))
        raise UnknownVersion(f'subject "{subject}" has no version {number}', fix=f"versions are: {known}")
    return versions[number]


def _same(versions: Iterable[Version], text: str, kind: Kind) -> Version | None:
    """The latest version with this schema."""
    schema_identity = identity(text, kind)
    same = [v for v in versions if v.kind == kind and identity(v.text, kind) == schema_identity]
    return same[-1] if same else None


def _level(state: RegistryState, subject: str) -> str:
    return _setting(state.levels, subject, DEFAULT_LEVEL, True)


def _setting(values: dict[str, str], subject: str, default: str, or_default: bool) -> str:
    if subject not in values and not or_default:
        raise NotConfigured(
            f'subject "{subject}" has no configuration of its own', fix="request the registry's configuration"
        )
    return values.get(subject, values.get(REGISTRY, default))


def _cleared(name: str, values: dict[str, str], subject: str, default: str) -> tuple[list[Row], str]:
    if subject not in values and subject != REGISTRY:
        raise NotConfigured(f'subject "{subject}" has no configuration of its own', fix="nothing needs to be deleted")
    return [((name, subject), None)] if subject in values else [], values.get(subject, default)


# -- checks ---------------------------------------------------------------------------------------------------------


def _check_writable(state: RegistryState, subject: str) -> None:
    if _setting(state.modes, subject, MODES[0], True) == "READONLY":
        raise RegistryReadOnly(f'subject "{subject}" is in mode READONLY', fix="set its mode to READWRITE")


def _check_order(versions: list[Version], permanent: bool, what: str) -> None:
    """Soft delete first, then permanent delete."""
    if permanent and not all(version.deleted for version in versions):
        raise NotSoftDeleted(f"{what} is not soft-deleted", fix="delete it first, then delete it permanently")
    if not permanent and (not versions or versions[0].deleted):
        raise AlreadySoftDeleted(f"{what} is already deleted", fix="delete it permanently, or register it again")


def _deleted(version: Version, permanent: bool) -> Row:
    key, value = version.row(deleted=True)
    return key, None if permanent else value


def _refuse(subject: str, reasons: list[str]) -> None:
    if reasons:
        raise IncompatibleSchema(
            f'the schema is not compatible with those of subject "{subject}": {"; ".join(reasons[:5])}',
            fix="give new fields a default and keep existing types, or set the subject's compatibility to NONE",
        )
