"""One who talks to a server: properties and variables, how answers are shown, and one statement after another.

A server forgets a SET or a DEFINE with the request it came in, so the session keeps them and sends them along. What it
does itself are SELECT and PRINT, whose rows go on, and RUN SCRIPT, since the file is here and not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.cli import output
from headrace.cli.shell.arrivals import Arrivals
from headrace.cli.shell.commands import do_command
from headrace.cli.shell.outputs import OUTPUTS, Output, Stanzas
from headrace.cli.shell.pieces import Piece, pieces, placed
from headrace.client import Client
from headrace.errors import HeadraceError
from headrace.lang.ksql.files import named_script
from headrace.lang.ksql.tokens import Kind, Token, tokens
from headrace.lang.ksql.variables import substituted


class Session:
    """`interactive` says that a person is there, who wants to know how many rows there were."""

    def __init__(self, client: Client, form: str = "table", *, interactive: bool = False) -> None:
        self.client = client
        self.form = form
        self.vertical = False
        self.interactive = interactive
        self.properties: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called when there may be other names than before."""
        self._around: list[str | None] = []

    @property
    def output(self) -> Output:
        return Stanzas() if self.vertical and self.form == "table" else OUTPUTS[self.form]()

    # -- texts ------------------------------------------------------------------------------------------------------

    def run(self, text: str, name: str | None = None) -> None:
        """Do all of a text; `name` is its file. The first error stops it, and knows its place in the text."""
        self._around.append(name)
        try:
            for piece in pieces(text):
                self._do(piece, text, name)
        finally:
            self._around.pop()

    def run_file(self, named: str) -> None:
        """A script, looked for beside the one it is named in."""
        path, text = named_script(named, None, self._around)
        self.run(text, path)

    def _do(self, piece: Piece, text: str, name: str | None) -> None:
        try:
            if piece.is_command:
                do_command(self, piece.text)
            else:
                self._statement(piece.text)
        except HeadraceError as error:
            placed(error, piece, text, name)
            raise

    # -- statements -------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """A statement that no person wrote, so no place in it is of use."""
        try:
            self.execute(text)
        except HeadraceError as error:
            error.where = None
            raise

    def execute(self, text: str) -> None:
        """Have it done, and show what became of it."""
        for entity in self.client.execute(text, self.properties, self.variables):
            self.output.answer(entity)

    def _statement(self, text: str) -> None:
        written = list(tokens(text))
        _DONE_HERE.get(written[0].value.upper(), Session._executed)(self, text, written)

    def _executed(self, text: str, written: Sequence[Token]) -> None:
        del written
        try:
            self.execute(text)
        finally:
            self.on_change()

    def _selected(self, text: str, written: Sequence[Token]) -> None:
        del written
        self._shown(text, self.output.rows)

    def _printed(self, text: str, written: Sequence[Token]) -> None:
        del written
        self._shown(text, self.output.records)

    def _shown(self, text: str, show: Callable[[Arrivals], int]) -> None:
        with Arrivals(self.client.query(text, self.properties, self.variables)) as arrivals:
            count = show(arrivals)
        if self.interactive:
            output.note(f"{count:,} {'row' if count == 1 else 'rows'}")

    def _set(self, text: str, written: Sequence[Token]) -> None:
        self.execute(text)
        name, value = self._values(written, Kind.TEXT)
        self.properties[name] = value

    def _unset(self, text: str, written: Sequence[Token]) -> None:
        self.execute(text)
        (name,) = self._values(written, Kind.TEXT)
        self.properties.pop(name, None)

    def _define(self, text: str, written: Sequence[Token]) -> None:
        self.execute(text)
        (value,) = self._values(written, Kind.TEXT)
        self.variables[written[1].value] = value

    def _undefine(self, text: str, written: Sequence[Token]) -> None:
        self.execute(text)
        self.variables.pop(written[1].value, None)

    def _run_script(self, text: str, written: Sequence[Token]) -> None:
        if named := self._values(written, Kind.TEXT):
            self.run_file(named[0])
        else:
            self.execute(text)  # the server says what is wrong with it

    def _values(self, written: Sequence[Token], kind: Kind) -> list[str]:
        """Of the statement's tokens of a kind, with variables put in."""
        return [token.value for token in substituted(written, self.variables) if token.kind is kind]


_DONE_HERE: Mapping[str, Callable[[Session, str, Sequence[Token]], None]] = {
    "SELECT": Session._selected,
    "PRINT": Session._printed,
    "SET": Session._set,
    "UNSET": Session._unset,
    "DEFINE": Session._define,
    "UNDEFINE": Session._undefine,
    "RUN": Session._run_script,
}
