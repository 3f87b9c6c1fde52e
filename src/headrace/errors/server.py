"""Errors of requests to a server, and its limits."""

from __future__ import annotations

from headrace.errors.base import Retry, UserError

# -- requests ---------------------------------------------------------------------------------------------------------


class BadRequest(UserError, code="bad-request"):
    """A request to a server is malformed."""


class BodyTooLarge(BadRequest, code="body-too-large"):
    """The body of a request exceeds the server's limit."""


class UnknownContentType(BadRequest, code="unknown-content-type"):
    """The endpoint does not support the content type of the request, or the one requested for the response."""


class UnknownPath(BadRequest, code="unknown-path"):
    """The server has no endpoint at that path, or not for that method."""


class ForeignOrigin(BadRequest, code="foreign-origin"):
    """A web page from another origin sent the request."""


class BadPositionToken(BadRequest, code="bad-position-token"):
    """A position token does not contain valid positions in topics."""


class UnknownCommand(UserError, code="unknown-command"):
    """The server does not know a command of that id."""


class UnknownDashboard(UserError, code="unknown-dashboard"):
    """There is no saved dashboard of that name."""


# -- limits -----------------------------------------------------------------------------------------------------------


class TooManyStatements(UserError, code="too-many-statements"):
    """A request to the server has more statements than are allowed at once."""


class TooManyConnections(Retry, code="too-many-connections"):
    """A server has as many connections as the settings allow, in total or from one address, or one address opens too
    many."""


class TooManyReaders(Retry, code="too-many-readers"):
    """The server has reached its limit of live readers."""


class ServerBusy(Retry, code="server-busy"):
    """The server has as much work, or holds as many bytes of requests, as it can at once."""

    seconds: float = 1.0


class TooManyRequests(Retry, code="too-many-requests"):
    """A user has more requests at once, or more of them a second, than one user's share or quota."""

    seconds: float = 1.0


class SlowConsumer(UserError, code="slow-consumer"):
    """A client of a push query does not read its rows fast enough."""
