"""Default fixes: one sentence for each kind of error that was raised without one."""

from __future__ import annotations

from collections.abc import Mapping

from headrace import errors as e

FIXES: Mapping[type[e.StatementError], str] = {
    e.BadGrouping: "group by it, or put it into an aggregate function",
    e.BadJoin: "compare one column of each side, a table by its primary key",
    e.BadKey: "use PRIMARY KEY for tables and KEY for streams, and a type that can be a key",
    e.BadLiteral: "write a value of the required type",
    e.BadName: "rename one of them",
    e.BadProperty: "remove the property, or change its value",
    e.BadQuery: "remove one of the clauses or columns",
    e.BadReplacement: "keep the existing columns, or drop the source and create it again",
    e.BadType: "use another type or expression",
    e.BadWindow: "use a window, or its bounds, only with a windowed GROUP BY",
    e.FormatUnsupported: "choose another format, or other types",
    e.SourceNotFound: "create it before this statement",
    e.SourceReadOnly: "create the source without the keyword SOURCE",
    e.TypeMismatch: "CAST one of the values to a matching type",
    e.WrongKind: "use the statement for the other kind of source, or another source",
}


def with_fix(error: e.StatementError) -> e.StatementError:
    """Returns the error with a fix."""
    error.fix = error.fix or FIXES.get(type(error), "change the statement")
    return error
