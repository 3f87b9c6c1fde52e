"""Errors of the API: one shape, `{"code", "what", "where", "fix", "status"}`, with a matching HTTP status.

A mistake of the caller is 4xx. A transient error is 503, and too many requests of one
user are 429, both with `Retry-After`. Everything else is 500.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil
from typing import Any

from headrace import errors
from headrace.errors import HeadraceError

RETRY_AFTER_SECONDS = 1
CHALLENGE = 'Bearer realm="headrace", Basic realm="headrace", charset="UTF-8"'
_logger = logging.getLogger(__name__)

_STATUSES: Mapping[type[HeadraceError], int] = {
    errors.UserError: 400,
    errors.NotAuthenticated: 401,
    errors.NotAllowed: 403,
    errors.BadRowFilter: 403,
    errors.CsrfMissing: 403,
    errors.UnknownUser: 404,
    errors.UnknownRole: 404,
    errors.UserExists: 409,
    errors.LoginThrottled: 429,
    errors.ForeignOrigin: 403,
    errors.CodeRefused: 403,
    errors.UnknownApp: 404,
    errors.AppInUse: 409,
    errors.UnknownTopic: 404,
    errors.UnknownPartition: 404,
    errors.UnknownGroup: 404,
    errors.UnknownQuery: 404,
    errors.UnknownProcess: 404,
    errors.UnknownDeadLetter: 404,
    errors.UnknownView: 404,
    errors.UnknownDashboard: 404,
    errors.UnknownPath: 404,
    errors.TopicExists: 409,
    errors.TopicInUse: 409,
    errors.GroupNotEmpty: 409,
    errors.PartitionConflict: 409,
    errors.SequenceGap: 409,
    errors.DeadLetterResolved: 409,
    errors.NotReplayable: 409,
    errors.WriterFenced: 409,
    errors.IncompatibleSchema: 409,
    errors.UnknownAlert: 404,
    errors.UnknownNotifier: 404,
    errors.NotifierInUse: 409,
    errors.OffsetLost: 410,
    errors.BodyTooLarge: 413,
    errors.RecordTooLarge: 413,
    errors.UnknownContentType: 415,
    errors.OffsetOutOfRange: 416,
    errors.QuotaExceeded: 507,
    errors.TooManyRequests: 429,
    errors.Retry: 503,
    errors.Closed: 503,
    HeadraceError: 500,
}


def http_status(error: HeadraceError) -> int:
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def error_document(error: HeadraceError, status: int | None = None) -> dict[str, Any]:
    """The JSON document of an error."""
    return {**error.as_dict(), "status": status or http_status(error)}


def error_headers(status: int, error: HeadraceError | None = None) -> dict[str, str]:
    if isinstance(error, errors.LoginThrottled | errors.TooManyRequests | errors.ServerBusy):
        return {"retry-after": str(ceil(error.seconds))}
    if status == 401:
        return {"www-authenticate": CHALLENGE}
    return {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 503 else {}


def to_headrace_error(error: Exception) -> HeadraceError:
    """The error to report to the client. Details of an unexpected error go only to the log file."""
    if isinstance(error, HeadraceError):
        return error
    _logger.error("a request failed", exc_info=error)
    return errors.ServerFailed("the server failed", fix="see its log file")
