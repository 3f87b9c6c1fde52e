"""Turns error responses of a server into the exceptions that the server raised.

A headrace server sends `code`, `where` and `fix` in addition to ksqlDB's fields, or in addition to `what`. Without them
(ksqlDB's own server, or a code newer than this client) the HTTP status decides between client and server error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import CODES, HeadraceError, ServerFailed, ServerRefused, ServerUnreachable

_BUSY = 503


def error_from(status: int, document: Any) -> HeadraceError:
    """The exception that an error response describes."""
    fields = document if isinstance(document, Mapping) else {}
    code, where, fix = (_text(fields.get(name)) for name in ("code", "where", "fix"))
    what = (
        _text(fields.get("message") or fields.get("what")) or f"the server responded with status {status}"
    ).removeprefix(f"{where}: ")
    kind = CODES.get(code or "")
    if kind is None:
        what = f"{code}: {what}" if code else what
        return _kind(status)(what, where=where, fix=fix)
    return kind(what, where=where, fix=fix)


def is_error(document: Any) -> bool:
    """Whether the response describes an error instead of a result."""
    return isinstance(document, Mapping) and "error_code" in document


def _kind(status: int) -> type[HeadraceError]:
    if status == _BUSY:
        return ServerUnreachable
    return ServerRefused if 400 <= status < 500 else ServerFailed


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
