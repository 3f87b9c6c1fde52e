"""An app: statements in the order in which they were made, and the functions and operators they call.

Every statement is planned as soon as it is made, against what the app knows, so that an error points at the Python line
that caused it and nothing has run yet. What an app is, is its KSQL (`app.text`): that is what is executed, journalled
and shown. The same statements by hand give the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

from headrace.errors import BadPython, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.limits import check
from headrace.lang.ksql.planner import Planner
from headrace.lang.python.declaring import UserFunction, batch_function, row_function
from headrace.lang.python.expressions import folded, written_columns
from headrace.lang.python.operators import Operator, declared
from headrace.lang.python.places import Place, here, located
from headrace.lang.python.relations import Named, properties_of
from headrace.lang.python.writing import statement_text
from headrace.plan.catalog import Action, Catalog, Create
from headrace.plan.operators import OperatorKind

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Streams, tables and the queries between them. `properties` are ksqlDB's settings (SET).

    Run again under the same name it goes on where it was; without one it has that of its file.

    >>> import headrace as hr
    >>> app = hr.App("shop")
    >>> orders = app.stream("orders", "id BIGINT KEY, price DOUBLE", topic="orders")
    >>> dear = orders.where(hr.col.price > 100).to_stream("dear")
    >>> print(app.text)
    CREATE STREAM `ORDERS` (`ID` BIGINT KEY, `PRICE` DOUBLE) WITH (KAFKA_TOPIC = 'orders', FORMAT = 'json');
    CREATE STREAM `DEAR` AS SELECT * FROM `ORDERS` WHERE (`PRICE` > 100);
    """

    def __init__(self, name: str = "", properties: Mapping[str, Any] | None = None) -> None:
        self.name = _checked(name)
        self.catalog = Catalog()
        self._planner = Planner(self.catalog)
        self._execution = Execution(self._planner, self._keep)
        self._texts: list[str] = []
        self._made: list[Action] = []
        for made in _WATCHED:
            made.append(self)
        for key, value in (properties or {}).items():
            self.add(ast.SetProperty(key, str(value), span=here()))

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
    ) -> Named:
        """Declare a stream over a topic: `app.stream("clicks", "user STRING KEY, page STRING", topic="clicks")`.

        Columns are written as in KSQL. Others of KSQL's properties may be given: `partitions=4`, `timestamp="at"`.
        """
        return self._declared("STREAM", name, columns, topic, format, properties)

    def table(
        self, name: str, columns: str = "", *, topic: str | None = None, format: str = "json", **properties: Any
    ) -> Named:
        """Declare a table over a topic: its last row per key; `"user STRING PRIMARY KEY, city STRING"`."""
        return self._declared("TABLE", name, columns, topic, format, properties)

    def source(self, name: str) -> Named:
        """A stream or table that a statement of `ksql` made."""
        return Named.made(self, folded(name), "")

    def _declared(
        self, kind: str, name: str, columns: str, topic: str | None, format: str, properties: Mapping[str, Any]
    ) -> Named:
        place = here()
        parted = "value_format" in properties or "key_format" in properties
        given = {"kafka_topic": topic or name, "value_format" if parted else "format": format, **properties}
        elements = written_columns(columns, kind) if columns else ()
        statement = ast.CreateSource(kind, folded(name), elements, properties_of(given), span=place)
        return Named.made(self, statement.name, self.add(statement))

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
        """A function of rows, typed by its annotations, to be called in expressions and in KSQL (see `declaring`)."""
        if python is None:
            return lambda function: row_function(function, name, repeatable=repeatable, version=version)
        return row_function(python, name, repeatable=repeatable, version=version)

    def batch_function(
        self, takes: Sequence[str], gives: str, *, name: str | None = None, version: str | None = None
    ) -> Callable[[Callable[P, R]], UserFunction[P, R]]:
        """A function of Arrow arrays: `@app.batch_function(["DOUBLE"], "DOUBLE")`."""
        return lambda function: batch_function(function, takes, gives, name, version)

    def operator(self, operator: type[Operator], name: str | None = None) -> OperatorKind:
        """Declare an operator of one's own for use in KSQL; `operate` does it by itself."""
        return declared(operator, name)

    # -- statements -------------------------------------------------------------------------------------------------

    def ksql(self, text: str) -> None:
        """Statements written in KSQL; they see what Python made, and Python sees what they make."""
        try:
            self._execution.run(text)
        except StatementError as error:
            place = here()
            error.where = f"{place.file}:{place.line}, in KSQL: {error.where or ''}"
            raise

    def add(self, statement: ast.Statement) -> str:
        """Plan a statement made of the grammar's nodes; gives its text."""
        place = statement.span if isinstance(statement.span, Place) else here()
        text = statement_text(statement)
        self._check_variables(text, place)
        try:
            check(statement, "")
            action = self._planner.plan(statement, text)
        except StatementError as error:
            raise located(error, place) from None
        self._keep(action, text)
        return text

    def _check_variables(self, text: str, place: Place) -> None:
        """Executed, the text would not say what was planned."""
        if used := [name for name in self._execution.variables if f"${{{name}}}" in text]:
            raise BadPython(
                f"a text holds ${{{used[0]}}}, which DEFINE has given a meaning",
                where=f"{place.file}:{place.line}",
                fix="use Python's own variables",
            )

    def _keep(self, action: Action, text: str) -> None:
        self._texts.append(text)
        self._made.append(action)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the streams and tables that it makes."""
        return tuple(action.source.name for action in self._made if isinstance(action, Create))


def _checked(name: str) -> str:
    """It becomes the name of a folder."""
    if name and not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name):
        raise BadPython(
            f'"{name}" is no name for an app',
            where=f"{here().file}:{here().line}",
            fix="take 1 to 100 letters, digits, dots, dashes and underscores",
        )
    return name


_WATCHED: list[list[App]] = []


@contextmanager
def apps_made() -> Iterator[list[App]]:
    """The apps that are made meanwhile, for whoever loads a file to see what it holds."""
    made: list[App] = []
    _WATCHED.append(made)
    try:
        yield made
    finally:
        _WATCHED.pop()
