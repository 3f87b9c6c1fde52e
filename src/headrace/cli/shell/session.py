"""A session with a server: its properties, variables and output format; executes one statement after another.

A server forgets a SET or a DEFINE after the request, so the session stores them and sends them with each request. The
session itself handles SELECT and PRINT, whose rows are streamed, and RUN SCRIPT, since the file is on the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.cli.io import output
from headrace.cli.shell.meta_commands import run_meta_command
from headrace.cli.shell.output_formats import OUTPUTS, OutputFormat, VerticalOutput
from headrace.cli.shell.row_buffer import RowBuffer
from headrace.cli.shell.statement_splitter import ShellInput, locate_error, split_input, word_command
from headrace.client import Client
from headrace.errors import HeadraceError
from headrace.lang.contract import Dialect
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize
from headrace.lang.ksql.grammar.variables import substitute_variables
from headrace.lang.registry import KSQL, dialect_of, dialect_of_file
from headrace.lang.script_files import named_script


class Session:
    """`interactive` means that a person is at the terminal; then the number of rows is printed."""

    def __init__(self, client: Client, form: str = "table", *, interactive: bool = False) -> None:
        self.client = client
        self.form = form
        self.vertical = False
        self.interactive = interactive
        self.properties: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called when the names in the catalog may have changed."""
        self._scripts: list[str | None] = []

    @property
    def output(self) -> OutputFormat:
        return VerticalOutput() if self.vertical and self.form == "table" else OUTPUTS[self.form]()

    # -- scripts ----------------------------------------------------------------------------------------------------

    def run(self, text: str, name: str | None = None) -> None:
        """Execute a whole text; `name` is its file, whose ending says the dialect.

        The first error stops it, and carries its location in the text.
        """
        dialect = dialect_of() if name is None else dialect_of_file(name)
        self._scripts.append(name)
        try:
            if dialect.name != KSQL:
                self._run_in(dialect, text, name)
                return
            for piece in split_input(text):
                self._run_piece(piece, text, name)
        finally:
            self._scripts.pop()

    def run_file(self, named: str) -> None:
        """Run a script; a relative path is resolved against the script that names it."""
        path, text = named_script(named, None, self._scripts)
        self.run(text, path)

    def _run_in(self, dialect: Dialect, text: str, name: str | None) -> None:
        """Send a script of another dialect as a whole: only the server splits it into statements."""
        try:
            results = self.client.execute(text, self.properties, self.variables, language=dialect.name)
        except HeadraceError as error:
            locate_error(error, ShellInput(text, 0), text, name)
            raise
        finally:
            self.on_change()
        self.output.results(results)

    def _run_piece(self, piece: ShellInput, text: str, name: str | None) -> None:
        try:
            command = piece.text if piece.is_command else word_command(piece.text)
            if command is not None:
                run_meta_command(self, command)
            else:
                self._statement(piece.text)
        except HeadraceError as error:
            locate_error(error, piece, text, name)
            raise

    # -- statements -------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """Execute a generated statement. Errors carry no location, since the user did not write the text."""
        try:
            self.execute(text)
        except HeadraceError as error:
            error.where = None
            raise

    def execute(self, text: str) -> None:
        """Execute a statement, and show its results."""
        for entity in self.client.execute(text, self.properties, self.variables):
            self.output.answer(entity)

    def _statement(self, text: str) -> None:
        tokens = list(tokenize(text))
        _LOCAL_STATEMENTS.get(tokens[0].value.upper(), Session._execute_remote)(self, text, tokens)

    def _execute_remote(self, text: str, tokens: Sequence[Token]) -> None:
        del tokens
        try:
            self.execute(text)
        finally:
            self.on_change()

    def _select(self, text: str, tokens: Sequence[Token]) -> None:
        del tokens
        self._show(text, self.output.rows)

    def _print(self, text: str, tokens: Sequence[Token]) -> None:
        del tokens
        self._show(text, self.output.records)

    def _show(self, text: str, show: Callable[[RowBuffer], int]) -> None:
        rows = self.client.query(text, self.properties, self.variables)
        if rows.notice:
            output.note(f"incomplete: {rows.notice}")
        with RowBuffer(rows) as arrivals:
            count = show(arrivals)
        if self.interactive:
            output.note(f"{count:,} {'row' if count == 1 else 'rows'}")

    def _set(self, text: str, tokens: Sequence[Token]) -> None:
        self.execute(text)
        name, value = self._values(tokens, Kind.TEXT)
        self.properties[name] = value

    def _unset(self, text: str, tokens: Sequence[Token]) -> None:
        self.execute(text)
        (name,) = self._values(tokens, Kind.TEXT)
        self.properties.pop(name, None)

    def _define(self, text: str, tokens: Sequence[Token]) -> None:
        self.execute(text)
        (value,) = self._values(tokens, Kind.TEXT)
        self.variables[tokens[1].value] = value

    def _undefine(self, text: str, tokens: Sequence[Token]) -> None:
        self.execute(text)
        self.variables.pop(tokens[1].value, None)

    def _run_script(self, text: str, tokens: Sequence[Token]) -> None:
        if named := self._values(tokens, Kind.TEXT):
            self.run_file(named[0])
        else:
            self.execute(text)  # the server reports the error

    def _values(self, tokens: Sequence[Token], kind: Kind) -> list[str]:
        """The values of the statement's tokens of one kind, with variables substituted."""
        return [token.value for token in substitute_variables(tokens, self.variables) if token.kind is kind]


_LOCAL_STATEMENTS: Mapping[str, Callable[[Session, str, Sequence[Token]], None]] = {
    "SELECT": Session._select,
    "PRINT": Session._print,
    "SET": Session._set,
    "UNSET": Session._unset,
    "DEFINE": Session._define,
    "UNDEFINE": Session._undefine,
    "RUN": Session._run_script,
}
