"""Errors of users, roles, grants and the audit."""

from __future__ import annotations

from headrace.errors.base import Stop, UserError


class NotAuthenticated(UserError, code="not-authenticated"):
    """The request has no credentials, or they are wrong, expired or revoked."""


class NotAllowed(UserError, code="not-allowed"):
    """The principal lacks the privilege for this."""


class SecretRequired(NotAllowed, code="secret-required"):
    """A client of this machine without credentials may not do this; the secret of the data folder allows it."""


class RowsHidden(NotAllowed, code="rows-hidden"):
    """The principal may read only some of the rows, and this needs all of them."""


class BadRowFilter(UserError, code="bad-row-filter"):
    """A row filter does not fit the stream or table, so no rows are returned."""


class LoginThrottled(UserError, code="login-throttled"):
    """There were too many wrong passwords; try again after a while."""

    seconds: float = 1.0


class CsrfMissing(UserError, code="csrf-missing"):
    """A request with a session cookie that changes something lacks the session's CSRF token."""


class BadGrant(UserError, code="bad-grant"):
    """A grant names something that cannot be granted."""


class BadUserName(UserError, code="bad-user-name"):
    """The name is not valid for a user or role."""


class WeakPassword(UserError, code="weak-password"):
    """The password is too short, or too long."""


class UserExists(UserError, code="user-exists"):
    """A user of that name already exists."""


class UnknownUser(UserError, code="unknown-user"):
    """The user does not exist."""


class UnknownRole(UserError, code="unknown-role"):
    """The role does not exist."""


class BadAccessToken(UserError, code="bad-access-token"):
    """A token cannot be created or revoked as requested."""


class PublicBind(UserError, code="public-bind"):
    """A server that other machines can reach must have TLS, authentication and an admin."""


class SecretDamaged(Stop, code="secret-damaged"):
    """A file with a secret of the data folder is empty or cut off."""


class AuditBroken(Stop, code="audit-broken"):
    """An entry of the audit log was changed, removed or inserted."""
