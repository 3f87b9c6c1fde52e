"""Errors of statements: names, types, clauses and functions."""

from __future__ import annotations

from headrace.errors.base import StatementError, UserError

# -- text -------------------------------------------------------------------------------------------------------------


class KsqlSyntaxError(StatementError, code="syntax-error"):
    """The text is not a KSQL statement."""


class BadLiteral(StatementError, code="bad-literal"):
    """A literal in the statement cannot be parsed as the required type."""


class BadScript(StatementError, code="bad-script"):
    """A script cannot be read, or includes itself by RUN SCRIPT."""


class Unsupported(StatementError, code="unsupported"):
    """KSQL allows it, but headrace does not support it yet."""


# -- names and sources ------------------------------------------------------------------------------------------------


class ColumnNotFound(StatementError, code="column-not-found"):
    """No source of the query has a column of that name."""


class AmbiguousColumn(StatementError, code="ambiguous-column"):
    """Several sources of the query have a column of that name."""


class SourceNotFound(StatementError, code="source-not-found"):
    """No stream or table of that name exists."""


class SourceExists(StatementError, code="source-exists"):
    """A stream or table of that name already exists."""


class WrongKind(StatementError, code="wrong-kind"):
    """The statement requires a stream but names a table, or the reverse."""


class SourceInUse(StatementError, code="source-in-use"):
    """Queries still read or write the stream or table."""


class SourceReadOnly(StatementError, code="source-read-only"):
    """A SOURCE stream or table cannot be written, changed or replaced."""


class BadName(StatementError, code="bad-name"):
    """The name is reserved, or used twice."""


# -- types and functions ----------------------------------------------------------------------------------------------


class TypeMismatch(StatementError, code="type-mismatch"):
    """Values of these types cannot be combined in this way."""


class BadType(StatementError, code="bad-type"):
    """The type does not exist, or cannot be used in this place."""


class UnknownFunction(StatementError, code="unknown-function"):
    """No function has that name."""


class WrongArguments(StatementError, code="wrong-arguments"):
    """No signature of the function accepts these arguments."""


class AmbiguousCall(StatementError, code="ambiguous-call"):
    """Several signatures of the function match the arguments equally well."""


class FunctionExists(UserError, code="function-exists"):
    """A user-defined function has the name of a built-in function, or of another app's function."""


class BadDatetimePattern(StatementError, code="bad-datetime-pattern"):
    """A date and time pattern is invalid."""


class BadPython(UserError, code="bad-python"):
    """Python code of an app is invalid, or a call of the Python API has an invalid argument."""


# -- clauses and queries ----------------------------------------------------------------------------------------------


class BadProperty(StatementError, code="bad-property"):
    """A property of a WITH clause is unknown, missing, contradicts another or has an invalid value."""


class BadKey(StatementError, code="bad-key"):
    """The result's key is missing from the projection, appears twice, or cannot be a key."""


class BadGrouping(StatementError, code="bad-grouping"):
    """GROUP BY, HAVING or an aggregate function is used where it is not valid."""


class BadJoin(StatementError, code="bad-join"):
    """The sources cannot be joined in this way."""


class BadWindow(StatementError, code="bad-window"):
    """A window, or its bounds, is used where it is not valid."""


class SchemaMismatch(StatementError, code="schema-mismatch"):
    """The query's columns do not match those of the stream that it writes to."""


class BadReplacement(StatementError, code="bad-replacement"):
    """The new definition cannot replace the existing source or query."""


class BadQuery(StatementError, code="bad-query"):
    """The clauses of the query cannot be combined."""


class NotQueryable(StatementError, code="not-queryable"):
    """The table is not materialized, so pull queries cannot read it."""
