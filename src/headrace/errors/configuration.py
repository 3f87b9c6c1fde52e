"""Errors of settings, secrets, components and their dependencies."""

from __future__ import annotations

from headrace.errors.base import UserError


class BadSetting(UserError, code="bad-setting"):
    """A setting is unknown or its value is invalid."""


class UnknownSecret(UserError, code="unknown-secret"):
    """A secret that is referred to does not exist."""


class BadSecret(UserError, code="bad-secret"):
    """The name or the content of a secret is not allowed."""


class UnknownDialect(UserError, code="unknown-dialect"):
    """No dialect of that name, or with that file ending, is installed."""


class UnknownComponent(UserError, code="unknown-component"):
    """No component of that kind and name is installed."""


class BadOption(UserError, code="bad-option"):
    """A component's option is unknown, missing or has an invalid value."""


class MissingDependency(UserError, code="missing-dependency"):
    """A program or library that this feature needs is not installed."""


class PortInUse(UserError, code="port-in-use"):
    """Another process listens on the port."""
