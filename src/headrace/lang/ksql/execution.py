"""A script carried out: one statement after another is planned, and what it asks for is done before the next is read.

The world decides what doing means (`World` in memory, `Program` on a log); here is what is the same for all: variables,
RUN SCRIPT, and errors with their place. The first error stops it; what came before stays done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.files import check_files_read, named_script
from headrace.lang.ksql.parser import Reading, read
from headrace.lang.ksql.planner import Planner
from headrace.plan.catalog import Action
from headrace.span import place


@dataclass
class Execution:
    planner: Planner
    apply: Callable[[Action, str], None]
    """Do what a statement asks for; the second argument is the statement's text."""
    variables: dict[str, str] = field(default_factory=dict)
    reads_files: bool = True
    """Whether RUN SCRIPT is done: not for who is elsewhere, and must not look into this machine's files."""
    look: Callable[[ast.Statement], None] = lambda statement: None
    """At a statement before it is planned."""
    _scripts: list[str | None] = field(default_factory=list)

    def run(self, text: str, name: str | None = None) -> list[Action]:
        """`name` is the script's file: it stands in errors, and RUN SCRIPT looks beside it."""
        self._scripts.append(name)
        try:
            return [action for reading in read(text, self.variables, name=name) for action in self._do(reading)]
        except StatementError as error:
            raise error if error.where else error.located(text, name) from None
        finally:
            self._scripts.pop()

    def _do(self, reading: Reading) -> list[Action]:
        statement = reading.statement
        if statement is None:
            raise reading.error or LookupError("a statement or an error is read")
        if isinstance(statement, ast.RunScript):
            check_files_read(statement.span, self.reads_files)
            name, text = named_script(statement.path, statement.span, self._scripts)
            return self.run(text, name)
        try:
            self.look(statement)
            action = self.planner.plan(statement, reading.text)
            self.apply(action, reading.text)
        except StatementError as error:
            error.span = error.span or statement.span  # an ASSERT that does not hold knows no place
            raise
        except HeadraceError as error:
            error.where = error.where or place(statement.span, self._scripts[-1])
            raise
        return [action]
