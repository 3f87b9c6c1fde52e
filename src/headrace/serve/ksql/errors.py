"""Errors in the format of ksqlDB's clients: a status, an error code and a message, with headrace's fields added.

`code`, `where` and `fix` are headrace's. A mistake of the caller is 400, a transient error 503, everything else 500.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from headrace.errors import (
    BadRequest,
    BadRowFilter,
    CsrfMissing,
    HeadraceError,
    LoginThrottled,
    NotAllowed,
    NotAuthenticated,
    Retry,
    StatementError,
    TooManyRequests,
    UnknownCommand,
    UserError,
)
from headrace.serve.api.errors import error_headers

CONTENT_TYPE = "application/vnd.ksql.v1+json"
BAD_REQUEST, BAD_STATEMENT, UNKNOWN, FAILED, NOT_READY = 40000, 40001, 40400, 50000, 50300
UNAUTHORIZED, FORBIDDEN, TOO_MANY = 40100, 40300, 42900


def error_document(
    error: HeadraceError, statement: str = "", entities: Sequence[Any] = ()
) -> tuple[int, dict[str, Any]]:
    """The status and the document; `entities` are the results of the statements executed before the error."""
    code = _code_of(error)
    document: dict[str, Any] = {"@type": "generic_error", "error_code": code, "message": _message(error)}
    if code == BAD_STATEMENT:
        document |= {"@type": "statement_error", "statementText": statement, "entities": list(entities)}
    elif entities:
        document["entities"] = list(entities)
    return code // 100, {**document, "code": error.code, "where": error.where, "fix": error.fix}


def error_response(error: HeadraceError, statement: str = "") -> Response:
    """An error as a response; a client that is refused for now learns when to come back."""
    status, document = error_document(error, statement)
    return Response(json.dumps(document, default=str), status, error_headers(status, error), CONTENT_TYPE)


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
    ((LoginThrottled, TooManyRequests), TOO_MANY),
)


def _message(error: HeadraceError) -> str:
    """The message. ksqlDB's clients match on its text, and show it to users."""
    place = f"{error.where}: " if isinstance(error, StatementError) and error.where else ""
    return f"{place}{error.what}"
