"""Executes a script: each statement is planned and applied before the next is parsed.

The caller defines how actions are applied (`World` in memory, `Program` on a log); this module has the common part:
variables, RUN SCRIPT, and errors with their position. The first error stops the script; earlier statements stay
applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import ParsedStatement, read_statements
from headrace.lang.ksql.scripts.files import check_files_read, named_script
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan.catalog import Action
from headrace.span import place


@dataclass
class ScriptExecutor:
    planner: Planner
    apply: Callable[[Action, str], None]
    """Applies an action; the second argument is the statement's text."""
    variables: dict[str, str] = field(default_factory=dict)
    reads_files: bool = True
    """Whether RUN SCRIPT is allowed: not for remote clients, which must not read this machine's files."""
    look: Callable[[ast.Statement], None] = lambda statement: None
    """Called with each statement before it is planned."""
    _scripts: list[str | None] = field(default_factory=list)

    def run(self, text: str, name: str | None = None) -> list[Action]:
        """Executes a script. `name` is its file: it appears in errors, and RUN SCRIPT paths are relative to it."""
        self._scripts.append(name)
        try:
            return [
                action for reading in read_statements(text, self.variables, name=name) for action in self._do(reading)
            ]
        except StatementError as error:
            raise error if error.where else error.located(text, name) from None
        finally:
            self._scripts.pop()

    def _do(self, reading: ParsedStatement) -> list[Action]:
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
            error.span = error.span or statement.span  # a failed ASSERT has no span
            raise
        except HeadraceError as error:
            error.where = error.where or place(statement.span, self._scripts[-1])
            raise
        return [action]
