"""Whatever is refused has one shape: `{"code", "what", "where", "fix", "status"}`, and the status that HTTP has for it.

What a caller got wrong is 4xx, what may pass by itself 503 (then `Retry-After` says when to ask again), all else 500.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil
from typing import Any

from headrace import errors
from headrace.errors import HeadraceError

AGAIN_AFTER = 1  # seconds
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
    errors.TooManyTries: 429,
    errors.ForeignOrigin: 403,
    errors.CodeRefused: 403,
    errors.UnknownApp: 404,
    errors.AppInUse: 409,
    errors.UnknownTopic: 404,
    errors.UnknownPartition: 404,
    errors.UnknownGroup: 404,
    errors.UnknownQuery: 404,
    errors.UnknownLetter: 404,
    errors.UnknownView: 404,
    errors.UnknownBoard: 404,
    errors.UnknownPath: 404,
    errors.TopicExists: 409,
    errors.TopicInUse: 409,
    errors.GroupBusy: 409,
    errors.PartitionConflict: 409,
    errors.SequenceGap: 409,
    errors.LetterSettled: 409,
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
    errors.Retry: 503,
    errors.Closed: 503,
    HeadraceError: 500,
}


def status_of(error: HeadraceError) -> int:
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def refusal(error: HeadraceError, status: int | None = None) -> dict[str, Any]:
    """The document."""
    return {**error.as_dict(), "status": status or status_of(error)}


def headers_of(status: int, error: HeadraceError | None = None) -> dict[str, str]:
    if isinstance(error, errors.TooManyTries):
        return {"retry-after": str(ceil(error.seconds))}
    if status == 401:
        return {"www-authenticate": CHALLENGE}
    return {"retry-after": str(AGAIN_AFTER)} if status == 503 else {}


def as_ours(error: Exception) -> HeadraceError:
    """An error as it is told. One that nobody foresaw is in the log file only."""
    if isinstance(error, HeadraceError):
        return error
    _logger.error("a request failed", exc_info=error)
    return errors.ServerFailed("the server failed", fix="its log file says why")
