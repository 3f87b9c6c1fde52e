"""What a server refuses, as the error that it was there.

A server of ours sends `code`, `where` and `fix` beside ksqlDB's fields, or beside `what`. Where it has none (ksqlDB's
own server, or a code that is newer than this client) the status says whose fault it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import CODES, HeadraceError, ServerFailed, ServerRefused, ServerUnreachable

_BUSY = 503


def refused(status: int, document: Any) -> HeadraceError:
    """The error that a document tells."""
    told = document if isinstance(document, Mapping) else {}
    code, where, fix = (_text(told.get(name)) for name in ("code", "where", "fix"))
    what = (_text(told.get("message") or told.get("what")) or f"the server answers with status {status}").removeprefix(
        f"{where}: "
    )
    kind = CODES.get(code or "")
    if kind is None:
        what = f"{code}: {what}" if code else what
        return _kind(status)(what, where=where, fix=fix)
    return kind(what, where=where, fix=fix)


def is_refusal(document: Any) -> bool:
    """Whether it tells of an error, in place of what was asked for."""
    return isinstance(document, Mapping) and "error_code" in document


def _kind(status: int) -> type[HeadraceError]:
    if status == _BUSY:
        return ServerUnreachable
    return ServerRefused if 400 <= status < 500 else ServerFailed


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
