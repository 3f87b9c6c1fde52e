"""An app: its statements in order, and the functions and operators they call.

Every statement is planned as soon as it is created, against the app's catalog, so that an error points at the Python
line that caused it before anything runs. An app is its KSQL (`app.text`): that is what is executed, journaled and
shown. The same statements written by hand give the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

from headrace.errors import BadPython, StatementError
from headrace.lang.executor import ScriptExecutor
from headrace.lang.ksql import ast
from headrace.lang.ksql.dialect import KsqlPlanner
from headrace.lang.ksql.grammar.limits import check_limits
from headrace.lang.ksql.statement_formatter import statement_sql
from headrace.lang.ksql.statements.planner import Planner
from headrace.lang.python.call_site import CallSite, call_site, locate
from headrace.lang.python.expressions import fold_name, written_columns
from headrace.lang.python.operators import Operator, declare_operator
from headrace.lang.python.relations import NamedRelation, properties_of
from headrace.lang.python.uncaught_errors import print_errors_plainly
from headrace.lang.python.user_functions import UserFunction, batch_function, row_function
from headrace.lang.registry import dialect_of
from headrace.plan.actions import Action, CreateSource
from headrace.plan.catalog import Catalog
from headrace.plan.operators import OperatorDefinition

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Streams, tables and the queries between them. `properties` are ksqlDB's settings (SET).

    Run again under the same name, it resumes; the default name is that of its file.

    >>> import headrace as hr
    >>> app = hr.App("shop")
    >>> orders = app.stream("orders", "id BIGINT KEY, price DOUBLE", topic="orders")
    >>> dear = orders.where(hr.col.price > 100).to_stream("dear")
    >>> print(app.text)
    CREATE STREAM `ORDERS` (`ID` BIGINT KEY, `PRICE` DOUBLE) WITH (KAFKA_TOPIC = 'orders', FORMAT = 'json');
    CREATE STREAM `DEAR` AS SELECT * FROM `ORDERS` WHERE (`PRICE` > 100);
    """

    def __init__(self, name: str = "", properties: Mapping[str, Any] | None = None) -> None:
        print_errors_plainly()
        self.name = _checked(name)
        self.catalog = Catalog()
        self._planner = Planner(self.catalog)
        self._execution = ScriptExecutor(dialect_of(), KsqlPlanner(self._planner), self._record)
        self._texts: list[str] = []
        self._actions: list[Action] = []
        for apps in _COLLECTORS:
            apps.append(self)
        for key, value in (properties or {}).items():
            self.add(ast.SetProperty(key, str(value), span=call_site()))

    @property
    def text(self) -> str:
        """The app as a KSQL script."""
        return "\n".join(self._texts)

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(self._texts)

    # -- sources ----------------------------------------------------------------------------------------------------

    def stream(
        self, name: str, columns: str = "", *, topic: str | None = None, format: str = "json", **properties: Any
    ) -> NamedRelation:
        """Declare a stream over a topic: `app.stream("clicks", "user STRING KEY, page STRING", topic="clicks")`.

        Columns are written as in KSQL. Other WITH properties are keyword arguments: `partitions=4`, `timestamp="at"`.
        """
        return self._declared("STREAM", name, columns, topic, format, properties)

    def table(
        self, name: str, columns: str = "", *, topic: str | None = None, format: str = "json", **properties: Any
    ) -> NamedRelation:
        """Declare a table over a topic: its last row per key; `"user STRING PRIMARY KEY, city STRING"`."""
        return self._declared("TABLE", name, columns, topic, format, properties)

    def source(self, name: str) -> NamedRelation:
        """Return a stream or table that a statement of `ksql` created."""
        return NamedRelation.create(self, fold_name(name), "")

    def _declared(
        self, kind: str, name: str, columns: str, topic: str | None, format: str, properties: Mapping[str, Any]
    ) -> NamedRelation:
        place = call_site()
        has_separate_formats = "value_format" in properties or "key_format" in properties
        all_properties = {
            "kafka_topic": topic or name,
            "value_format" if has_separate_formats else "format": format,
            **properties,
        }
        elements = written_columns(columns, kind) if columns else ()
        statement = ast.CreateSource(kind, fold_name(name), elements, properties_of(all_properties), span=place)
        return NamedRelation.create(self, statement.name, self.add(statement))

    # -- functions --------------------------------------------------------------------------------------------------

    @overload
    def function(self, python: Callable[P, R], /) -> UserFunction[P, R]: ...
    @overload
    def function(
        self, /, *, name: str | None = None, repeatable: bool = True, version: str | None = None
    ) -> Callable[[Callable[P, R]], UserFunction[P, R]]: ...
    def function(
        self,
        python: Any = None,
        /,
        *,
        name: str | None = None,
        repeatable: bool = True,
        version: str | None = None,
    ) -> Any:
        """Declare a row function, typed by its annotations, for expressions and KSQL (see `user_functions`)."""
        if python is None:
            return lambda function: row_function(function, name, repeatable=repeatable, version=version)
        return row_function(python, name, repeatable=repeatable, version=version)

    def batch_function(
        self, input_types: Sequence[str], output_type: str, *, name: str | None = None, version: str | None = None
    ) -> Callable[[Callable[P, R]], UserFunction[P, R]]:
        """Declare a function of Arrow arrays: `@app.batch_function(["DOUBLE"], "DOUBLE")`."""
        return lambda function: batch_function(function, input_types, output_type, name, version)

    def operator(self, operator: type[Operator], name: str | None = None) -> OperatorDefinition:
        """Declare a user-defined operator for use in KSQL; `operate` declares it by itself."""
        return declare_operator(operator, name)

    # -- statements -------------------------------------------------------------------------------------------------

    def ksql(self, text: str) -> None:
        """Add KSQL statements; they see what Python created, and Python sees what they create."""
        try:
            self._execution.run(text)
        except StatementError as error:
            error.where = f"{call_site().where}, in KSQL: {error.where or ''}"
            raise

    def add(self, statement: ast.Statement) -> str:
        """Plan a statement given as a syntax tree; returns its text."""
        place = statement.span if isinstance(statement.span, CallSite) else call_site()
        text = statement_sql(statement)
        self._check_variables(text, place)
        try:
            check_limits(statement, "")
            action = self._planner.plan(statement, text)
        except StatementError as error:
            raise locate(error, place) from None
        self._record(action, text)
        return text

    def _check_variables(self, text: str, place: CallSite) -> None:
        """Reject variables in the text: when executed, it would not mean what was planned."""
        if used := [name for name in self._execution.variables if f"${{{name}}}" in text]:
            raise BadPython(
                f"a string contains ${{{used[0]}}}, which DEFINE would replace",
                where=place.where,
                fix="use a Python variable instead",
            )

    def _record(self, action: Action, text: str) -> None:
        self._texts.append(text)
        self._actions.append(action)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the streams and tables that the app creates."""
        return tuple(action.source.name for action in self._actions if isinstance(action, CreateSource))


def _checked(name: str) -> str:
    """Check the name, which becomes that of a folder."""
    if name and not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name):
        raise BadPython(
            f'"{name}" is not a valid name for an app',
            where=call_site().where,
            fix="use 1 to 100 letters, digits, dots, dashes and underscores",
        )
    return name


_COLLECTORS: list[list[App]] = []


@contextmanager
def created_apps() -> Iterator[list[App]]:
    """Collect the apps created inside the context, for a loader of an app file."""
    apps: list[App] = []
    _COLLECTORS.append(apps)
    try:
        yield apps
    finally:
        _COLLECTORS.pop()
