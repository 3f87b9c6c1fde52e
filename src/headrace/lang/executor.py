"""Executes a script of any dialect: each statement is planned and applied before the next is parsed.

The caller defines how actions are applied (see `interpreter`); this module has the common part: variables, scripts that
execute other scripts, in any dialect, and errors with their position. The first error stops the script; earlier
statements stay applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, StatementError, UnknownDialect
from headrace.lang.contract import Dialect, ParsedStatement, StatementPlanner
from headrace.lang.registry import dialect_of_file
from headrace.lang.script_files import check_files_read, named_script
from headrace.plan.actions import Action
from headrace.span import Span, place


@dataclass
class ScriptExecutor:
    dialect: Dialect
    planner: StatementPlanner
    apply: Callable[[Action, str], None]
    """Applies an action; the second argument is the statement's text."""
    variables: dict[str, str] = field(default_factory=dict)
    reads_files: bool = True
    """Whether RUN SCRIPT is allowed: not for remote clients, which must not read this machine's files."""
    before_planning: Callable[[ParsedStatement], Action | None] = lambda statement: None
    """Called with each statement before it is planned; an action that it returns is applied instead."""
    _scripts: list[str | None] = field(default_factory=list)

    def run(self, text: str, name: str | None = None) -> list[Action]:
        """Executes a script. `name` is its file: it appears in errors, and RUN SCRIPT paths are relative to it."""
        self._scripts.append(name)
        try:
            return [
                action
                for statement in self.dialect.parse(text, self.variables, name=name)
                for action in self._execute(statement)
            ]
        except StatementError as error:
            raise error if error.where else error.located(text, name) from None
        finally:
            self._scripts.pop()

    def _execute(self, statement: ParsedStatement) -> list[Action]:
        if statement.error is not None:
            raise statement.error
        if statement.script is not None:
            return self._run_file(statement.script, statement.span)
        try:
            action = self.before_planning(statement) or self.planner.plan(statement)
            self.apply(action, statement.text)
        except StatementError as error:
            error.span = error.span or statement.span  # a failed ASSERT has no span
            raise
        except HeadraceError as error:
            error.where = error.where or place(statement.span, self._scripts[-1])
            raise
        return [action]

    def _run_file(self, script: str, span: Span) -> list[Action]:
        check_files_read(span, self.reads_files)
        name, text = named_script(script, span, self._scripts)
        try:
            dialect = dialect_of_file(name)
        except UnknownDialect as error:
            error.where = place(span, self._scripts[-1])
            raise
        with self._switched(dialect):
            return self.run(text, name)

    @contextmanager
    def _switched(self, dialect: Dialect) -> Iterator[None]:
        """Plan in another dialect during the block, over the same catalog."""
        before = self.dialect, self.planner
        if dialect.name != self.dialect.name:
            self.dialect, self.planner = dialect, dialect.planner(self.planner.catalog, self.planner.properties)
        try:
            yield
        finally:
            self.dialect, self.planner = before
