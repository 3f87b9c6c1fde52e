"""Errors of formats of payloads and the schema registry."""

from __future__ import annotations

from headrace.errors.base import Retry, StatementError, UserError

# -- formats of payloads ----------------------------------------------------------------------------------------------


class UnknownFormat(StatementError, code="unknown-format"):
    """No format of that name is installed."""


class FormatUnsupported(StatementError, code="format-unsupported"):
    """A format does not support columns of these types, or that many of them."""


class BadFormatOption(StatementError, code="bad-format-option"):
    """A format does not have the option, or the option cannot have that value."""


# -- the schema registry ----------------------------------------------------------------------------------------------


class UnknownSchema(UserError, code="unknown-schema"):
    """The schema registry has no schema of that id or subject."""


class UnknownSubject(UnknownSchema, code="unknown-subject"):
    """The schema registry has no subject of that name."""


class UnknownVersion(UnknownSchema, code="unknown-version"):
    """The subject has no version of that number."""


class BadVersion(UserError, code="bad-version"):
    """A version must be a number of at least 1, or "latest"."""


class AlreadySoftDeleted(UserError, code="already-soft-deleted"):
    """The subject or version is already soft-deleted; it can only be deleted permanently."""


class NotSoftDeleted(UserError, code="not-soft-deleted"):
    """A subject or version must be soft-deleted before it is deleted permanently."""


class BadCompatibility(UserError, code="bad-compatibility"):
    """The compatibility level does not exist."""


class BadMode(UserError, code="bad-mode"):
    """The registry mode does not exist."""


class RegistryReadOnly(UserError, code="registry-read-only"):
    """The registry, or the subject, is in mode READONLY."""


class NotConfigured(UserError, code="not-configured"):
    """The subject has no configuration; the registry's applies to it."""


class RegistryUnreachable(Retry, code="registry-unreachable"):
    """The schema registry did not respond, or cannot serve the request now."""


class RegistryRefused(UserError, code="registry-refused"):
    """The schema registry refused a request, or its response is not that of a schema registry."""
