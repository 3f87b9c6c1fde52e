"""Schema compatibility: whether data written with one schema can be read with another.

*Backward*: the new schema reads what the old one wrote. *Forward*: the old one reads what the new one writes. *Full* is
both. A level that is not *transitive* checks the latest version only. Unsupported parts of a schema count as a problem
and are never ignored. The rules of each schema type are in the package of its format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import BadSchema
from headrace.formats.optional_libraries import require_library
from headrace.formats.schema_registry.state import Kind, Version

Problems = Callable[[str, str], list[str]]
"""Why a reader's schema cannot read what a writer's wrote; both as text."""


@dataclass(frozen=True, slots=True)
class Level:
    backward: bool = False
    forward: bool = False
    transitive: bool = False


LEVELS: Mapping[str, Level] = {
    "NONE": Level(),
    "BACKWARD": Level(backward=True),
    "BACKWARD_TRANSITIVE": Level(backward=True, transitive=True),
    "FORWARD": Level(forward=True),
    "FORWARD_TRANSITIVE": Level(forward=True, transitive=True),
    "FULL": Level(backward=True, forward=True),
    "FULL_TRANSITIVE": Level(backward=True, forward=True, transitive=True),
}
DEFAULT_LEVEL = "BACKWARD"
MOST_CHARACTERS = 1 << 20


def check_schema(text: str, kind: Kind) -> None:
    """Refuse text that is not a valid schema of this type."""
    if len(text) > MOST_CHARACTERS:
        raise BadSchema(f"the schema has {len(text)} characters", fix=f"write at most {MOST_CHARACTERS}")
    _kind(kind)[0](text)


def problems(text: str, kind: Kind, versions: Sequence[Version], level: str) -> list[str]:
    """Why a new schema is incompatible with versions of its subject, the latest of them last."""
    required = LEVELS[level]
    if not (required.backward or required.forward):
        return []
    against = versions if required.transitive else versions[-1:]
    return [f"version {old.number}: {problem}" for old in against for problem in _between(text, kind, old, required)]


def _between(text: str, kind: Kind, old: Version, level: Level) -> list[str]:
    if old.kind != kind:
        return [f"it is {old.kind}, not {kind}"]
    reasons: list[str] = []
    if level.backward:
        reasons += [f"the new schema cannot read what the old one wrote: {p}" for p in _read(kind, text, old.text)]
    if level.forward:
        reasons += [f"the old schema cannot read what the new one writes: {p}" for p in _read(kind, old.text, text)]
    return reasons


def _read(kind: Kind, reader: str, writer: str) -> list[str]:
    try:
        return _kind(kind)[1](reader, writer)
    except RecursionError:
        return ["it is nested too deeply"]


def _kind(kind: Kind) -> tuple[Callable[[str], None], Problems]:
    return _KINDS[kind]()


# Late imports: only users of a schema type need its library.


def _avro() -> tuple[Callable[[str], None], Problems]:
    require_library("fastavro", "avro")
    from headrace.formats.avro import compatibility

    return compatibility.check, compatibility.problems


def _protobuf() -> tuple[Callable[[str], None], Problems]:
    from headrace.formats.protobuf import compatibility

    return compatibility.check, compatibility.problems


def _json() -> tuple[Callable[[str], None], Problems]:
    from headrace.formats.json import compatibility

    return compatibility.check, compatibility.problems


_KINDS: Mapping[str, Callable[[], tuple[Callable[[str], None], Problems]]] = {
    "AVRO": _avro,
    "PROTOBUF": _protobuf,
    "JSON": _json,
}
