"""Maps errors to the codes that schema registry clients expect: an HTTP status and two more digits."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import (
    AlreadySoftDeleted,
    BadCompatibility,
    BadMode,
    BadSchema,
    BadVersion,
    HeadraceError,
    IncompatibleSchema,
    NotConfigured,
    NotSoftDeleted,
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
    AlreadySoftDeleted: 40404,
    NotSoftDeleted: 40405,
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
_OF_VERSIONS: Codes = {AlreadySoftDeleted: 40406, NotSoftDeleted: 40407}
_OF_MODES: Codes = {NotConfigured: 40409}


def error_codes(path: str) -> Codes:
    """The codes of one route: some routes have more specific ones."""
    more = _OF_MODES if path.startswith("/mode") else _OF_VERSIONS if "{version}" in path else {}
    return {**_CODES, **more}


def error_code(error: HeadraceError, codes: Codes) -> int:
    return next(codes[kind] for kind in type(error).__mro__ if kind in codes)


def http_status(code: int) -> int:
    return code if code < 1000 else code // 100


def error_message(error: HeadraceError) -> str:
    return f"{error.code}: {error.what}" + (f"; {error.fix}" if error.fix else "")
