"""Lines that begin with `\\`: commands of the shell itself. Each row of `COMMANDS` is one, with its line in `\\?`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.shell.output_formats import OUTPUTS, write
from headrace.errors import BadShellCommand

if TYPE_CHECKING:
    from headrace.cli.shell.session import Session

Words = Sequence[str]


class ExitShell(Exception):
    """Raised to leave the shell."""


@dataclass(frozen=True)
class MetaCommand:
    """A command: its `arguments` as shown in the help, and how many words may follow at most."""

    arguments: str
    doc: str
    run: Callable[[Session, Words], None]

    @property
    def most(self) -> int:
        return len(self.arguments.split())


def run_meta_command(session: Session, line: str) -> None:
    """Run a command line, given without its `\\`."""
    try:
        name, *words = shlex.split(line) or [""]
    except ValueError as error:
        raise BadShellCommand(f'"\\{line}" cannot be read: {error}', fix="close the quote") from error
    command = COMMANDS.get(name)
    if command is None:
        raise BadShellCommand(f'there is no command "\\{name}"', fix="\\? lists them")
    if len(words) > command.most:
        raise BadShellCommand(f'"\\{name}" is followed by too much', fix=f"write \\{name} {command.arguments}".rstrip())
    command.run(session, words)


# -- catalog commands -----------------------------------------------------------------------------------------------


def _describe(session: Session, words: Words) -> None:
    session.ask(f"DESCRIBE {words[0]};" if words else "LIST STREAMS; LIST TABLES;")


def _describe_extended(session: Session, words: Words) -> None:
    session.ask(f"DESCRIBE {words[0]} EXTENDED;" if words else "LIST STREAMS EXTENDED; LIST TABLES EXTENDED;")


def _functions(session: Session, words: Words) -> None:
    session.ask(f"DESCRIBE FUNCTION {words[0]};" if words else "LIST FUNCTIONS;")


def _runs(statement: str) -> Callable[[Session, Words], None]:
    return lambda session, words: session.ask(statement)


def _info(session: Session, words: Words) -> None:
    info = session.client.info()
    write([f"{session.client.address}: version {info.get('version')}, {info.get('serverStatus')}"])


# -- shell commands -------------------------------------------------------------------------------------------------


def _help(session: Session, words: Words) -> None:
    usages = {f"\\{name} {command.arguments}".rstrip(): command.doc for name, command in COMMANDS.items()}
    width = max(map(len, usages))
    write(f"  {usage:<{width}}  {doc}" for usage, doc in usages.items())
    write(["Statements end with ; and may have several lines. Ctrl-C stops a query, exit or Ctrl-D ends the shell."])


def _vertical(session: Session, words: Words) -> None:
    session.vertical = not session.vertical
    write([f"one line per {'value' if session.vertical else 'row'}"])


def _output(session: Session, words: Words) -> None:
    if not words:
        write([session.form])
    elif words[0] in OUTPUTS:
        session.form = words[0]
    else:
        raise BadShellCommand(f'there is no output "{words[0]}"', fix=f"use one of {', '.join(OUTPUTS)}")


def _include(session: Session, words: Words) -> None:
    if not words:
        raise BadShellCommand("\\i needs a file", fix="write \\i FILE")
    session.run_file(str(Path(words[0]).expanduser()))


def _set(session: Session, words: Words) -> None:
    if not words:
        write(f"SET {_quoted(name)} = {_quoted(value)};" for name, value in sorted(session.properties.items()))
        write(f"DEFINE {name} = {_quoted(value)};" for name, value in sorted(session.variables.items()))
    elif len(words) == 1:
        raise BadShellCommand(f'the property "{words[0]}" needs a value', fix="write \\set NAME VALUE")
    else:
        session.ask(f"SET {_quoted(words[0])} = {_quoted(words[1])};")
        session.properties[words[0]] = words[1]


def _unset(session: Session, words: Words) -> None:
    if not words:
        raise BadShellCommand("\\unset needs a property", fix="write \\unset NAME")
    session.properties.pop(words[0], None)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quit(session: Session, words: Words) -> None:
    raise ExitShell


COMMANDS: Mapping[str, MetaCommand] = {
    "d": MetaCommand("[NAME]", "list streams and tables, or describe one", _describe),
    "d+": MetaCommand("[NAME]", "the same with all details", _describe_extended),
    "t": MetaCommand("", "list topics", _runs("LIST TOPICS;")),
    "dq": MetaCommand("", "list queries", _runs("LIST QUERIES;")),
    "dp": MetaCommand("", "list the pull and push queries that are running", _runs("SHOW PROCESSES;")),
    "df": MetaCommand("[NAME]", "list functions, or describe one", _functions),
    "x": MetaCommand("", "switch between one line per value and one per row", _vertical),
    "o": MetaCommand("[FORMAT]", f"output format: {', '.join(OUTPUTS)}", _output),
    "i": MetaCommand("FILE", "run the statements of a file", _include),
    "set": MetaCommand("[NAME VALUE]", "set a property for the session, or list what is set", _set),
    "unset": MetaCommand("NAME", "unset a property", _unset),
    "info": MetaCommand("", "show the server's address and version", _info),
    "?": MetaCommand("", "show this list", _help),
    "q": MetaCommand("", "leave the shell", _quit),
}
