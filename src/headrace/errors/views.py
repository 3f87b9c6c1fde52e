"""Errors of materialized views and their databases."""

from __future__ import annotations

from headrace.errors.base import Retry, Stop, UserError


class UnknownView(UserError, code="unknown-view"):
    """There is no materialized table of that name."""


class ViewUnreadable(Stop, code="view-unreadable"):
    """Another version of headrace wrote the view, it is damaged, or another server replaced or removed it."""


class ViewDamaged(Retry, code="view-damaged"):
    """The file of a view is damaged; the view is rebuilt from its topic."""


class ViewLagging(Retry, code="view-lagging"):
    """A view did not reach the requested position within the timeout."""


class ViewReplaced(Retry, code="view-replaced"):
    """A table was replaced or dropped after a query on it was planned."""


class DatabaseUnreachable(Retry, code="database-unreachable"):
    """The views' database does not respond, or cannot serve the request now."""


class DatabaseRefused(Stop, code="database-refused"):
    """The views' database refuses the user or denies a privilege, or its encoding is not UTF-8."""
