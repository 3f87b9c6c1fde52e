"""Default fixes: one sentence for each kind of error that was raised without one."""

from __future__ import annotations

from collections.abc import Mapping

from headrace import errors as e

FIXES: Mapping[type[e.StatementError], str] = {
    e.BadGrouping: "group by it, or put it into an aggregate function",
    e.BadJoin: "compare one column of each side, a table by its primary key",
    e.BadKey: "use PRIMARY KEY for tables and KEY for streams, and a type that can be a key",
    e.BadLiteral: "write a value of the type that is needed there",
    e.BadName: "rename one of them",
    e.BadProperty: "remove the property, or change its value",
    e.BadQuery: "leave out one of the clauses or columns",
    e.BadReplacement: "keep the columns that are there, or drop the source and create it anew",
    e.BadType: "use another type or expression there",
    e.BadWindow: "use a window, or its bounds, only where a windowed GROUP BY makes them",
    e.FormatUnsupported: "choose another format, or other types",
    e.SourceNotFound: "create it before this statement",
    e.SourceReadOnly: "create the source without the word SOURCE, or leave it as it is",
    e.TypeMismatch: "CAST one of the values to a type that fits",
    e.WrongKind: "use the other kind of statement, or of source",
}


def with_fix(error: e.StatementError) -> e.StatementError:
    """Returns the error with a fix."""
    error.fix = error.fix or FIXES.get(type(error), "change the statement")
    return error
