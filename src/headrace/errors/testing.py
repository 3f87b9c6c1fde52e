"""Errors of in-memory tests."""

from __future__ import annotations

from headrace.errors.base import StatementError, UserError


class AssertFailed(StatementError, code="assert-failed"):
    """An ASSERT statement failed."""


class BadTestCases(UserError, code="bad-test-cases"):
    """A file of test cases is invalid."""


class ResultDiffers(UserError, code="result-differs"):
    """The result of a test case differs from the expected one."""
