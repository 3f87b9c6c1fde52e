"""Our errors as the codes that clients of schema registries know: an HTTP status and two digits more."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import (
    BadCompatibility,
    BadMode,
    BadSchema,
    BadVersion,
    DeletedBefore,
    HeadraceError,
    IncompatibleSchema,
    NotConfigured,
    NotDeletedYet,
    RegistryReadOnly,
    Retry,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)

Codes = Mapping[type[HeadraceError], int]

_CODES: Codes = {
    UnknownSubject: 40401,
    UnknownVersion: 40402,
    UnknownSchema: 40403,
    DeletedBefore: 40404,
    NotDeletedYet: 40405,
    NotConfigured: 40408,
    IncompatibleSchema: 409,
    BadSchema: 42201,
    BadVersion: 42202,
    BadCompatibility: 42203,
    BadMode: 42204,
    RegistryReadOnly: 42205,
    Retry: 50002,
    HeadraceError: 50001,
}
_OF_VERSIONS: Codes = {DeletedBefore: 40406, NotDeletedYet: 40407}
_OF_MODES: Codes = {NotConfigured: 40409}


def codes_of(path: str) -> Codes:
    """The codes of one route: some say more about what it names."""
    more = _OF_MODES if path.startswith("/mode") else _OF_VERSIONS if "{version}" in path else {}
    return {**_CODES, **more}


def code_of(error: HeadraceError, codes: Codes) -> int:
    return next(codes[kind] for kind in type(error).__mro__ if kind in codes)


def status_of(code: int) -> int:
    return code if code < 1000 else code // 100


def message_of(error: HeadraceError) -> str:
    return f"{error.code}: {error.what}" + (f"; {error.fix}" if error.fix else "")
