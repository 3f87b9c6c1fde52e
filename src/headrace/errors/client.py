"""Errors of servers, as clients see them."""

from __future__ import annotations

from headrace.errors.base import Retry, Stop, UserError


class ServerNotRunning(UserError, code="server-not-running"):
    """No server runs on the data folder."""


class ServerUnreachable(Retry, code="server-unreachable"):
    """No server responds at the address, or a server did not stop in time."""


class ConnectionLost(Retry, code="connection-lost"):
    """The connection to a server broke during a response, so it is not known what the server did."""


class ServerRefused(UserError, code="server-refused"):
    """A server refused a request with a message of its own."""


class ServerFailed(Stop, code="server-failed"):
    """A server failed to process a request, or its response is not that of a headrace server."""


class BadCommandLine(UserError, code="bad-command-line"):
    """A command, an option or an argument is unknown, is missing or has an invalid value."""


class BadShellCommand(UserError, code="bad-shell-command"):
    """A shell command is unknown, or its syntax is wrong."""
