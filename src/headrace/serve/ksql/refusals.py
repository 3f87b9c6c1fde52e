"""Why something was refused, as ksqlDB's clients read it: a status, an error code, a message; and our own words beside.

`code`, `where` and `fix` are ours. What a caller got wrong is 400, what may pass by itself is 503, all else is 500.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.errors import (
    BadRequest,
    BadRowFilter,
    CsrfMissing,
    HeadraceError,
    NotAllowed,
    NotAuthenticated,
    Retry,
    StatementError,
    TooManyTries,
    UnknownCommand,
    UserError,
)

BAD_REQUEST, BAD_STATEMENT, UNKNOWN, FAILED, NOT_READY = 40000, 40001, 40400, 50000, 50300
UNAUTHORIZED, FORBIDDEN, TOO_MANY = 40100, 40300, 42900


def refusal(error: HeadraceError, statement: str = "", entities: Sequence[Any] = ()) -> tuple[int, dict[str, Any]]:
    """The status and the document; `entities` are of the statements before it, which were done."""
    code = _code_of(error)
    document: dict[str, Any] = {"@type": "generic_error", "error_code": code, "message": _message(error)}
    if code == BAD_STATEMENT:
        document |= {"@type": "statement_error", "statementText": statement, "entities": list(entities)}
    elif entities:
        document["entities"] = list(entities)
    return code // 100, {**document, "code": error.code, "where": error.where, "fix": error.fix}


def _code_of(error: HeadraceError) -> int:
    for kinds, code in _CODES:
        if isinstance(error, kinds):
            return code
    if isinstance(error, UserError):
        return BAD_STATEMENT
    return NOT_READY if isinstance(error, Retry) else FAILED


_CODES = (
    (BadRequest, BAD_REQUEST),
    (UnknownCommand, UNKNOWN),
    (NotAuthenticated, UNAUTHORIZED),
    ((NotAllowed, BadRowFilter, CsrfMissing), FORBIDDEN),
    (TooManyTries, TOO_MANY),
)


def _message(error: HeadraceError) -> str:
    """ksqlDB's clients look at the words, and show them to people."""
    place = f"{error.where}: " if isinstance(error, StatementError) and error.where else ""
    return f"{place}{error.what}"
