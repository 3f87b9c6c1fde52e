"""The registry of dialects: finds a dialect by its name or by the ending of a file.

Dialects of other packages declare an entry point of the group `headrace.dialects`. A dialect is imported when it is
first used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath

from headrace.errors import UnknownDialect, suggestion
from headrace.lang.contract import Dialect

KSQL = "ksql"
"""The dialect of statements that name no other."""
_BUILT_IN = {KSQL: "headrace.lang.ksql.dialect:KsqlDialect"}
_GROUP = "headrace.dialects"

_registered: dict[str, Dialect] = {}


def register(dialect: Dialect) -> None:
    """Make a dialect known in this process; it replaces another of the same name."""
    _registered[dialect.name] = dialect


def unregister(name: str) -> None:
    _registered.pop(name, None)


def dialect_of(name: str = KSQL) -> Dialect:
    """The dialect of that name."""
    if name in _registered:
        return _registered[name]
    if name not in (declared := _declared()):
        known = ", ".join(names())
        fix = suggestion(name, names(), f"use one of: {known}")
        raise UnknownDialect(f'there is no dialect "{name}"; the dialects are: {known}', fix=fix)
    module, _, cls = declared[name].partition(":")
    dialect = getattr(import_module(module), cls)()
    register(dialect)
    return dialect


def dialect_of_file(path: PurePath | str) -> Dialect:
    """The dialect whose files have this ending; KSQL if the file has none."""
    suffix = PurePath(path).suffix.lower()
    if not suffix:
        return dialect_of()
    endings = {ending: dialect for dialect in map(dialect_of, names()) for ending in dialect.file_endings}
    if suffix not in endings:
        known = ", ".join(sorted(endings))
        raise UnknownDialect(
            f'no dialect has the ending of file "{path}"; the endings are: {known}',
            fix=suggestion(suffix, endings, f"rename the file: use one of {known}"),
        )
    return endings[suffix]


def names() -> list[str]:
    return sorted({*_registered, *_declared()})


@cache
def _declared() -> dict[str, str]:
    installed = {point.name: point.value for point in entry_points(group=_GROUP)}
    return {**installed, **_BUILT_IN}
