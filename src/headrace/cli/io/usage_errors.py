"""Turns what the parser of command lines refuses into a coded error: what, where, fix."""

from __future__ import annotations

import re
from typing import Any

from typer.exceptions import TyperException

from headrace.errors import BadCommandLine, suggestion

# The value types report in their own words; these are ours.
_WORDS = (
    (r"Input should be a valid (integer|number)\b.*", "write a number"),
    (r"Input should be ", "it must be "),
    (r"Value error, ", ""),
    (r"^Invalid value: ", ""),
    (r"Got unexpected extra arguments?\(?s?\)? \((.*)\)", r'unexpected argument "\1"'),
    (r"'([^' ]+)'", r'"\1"'),
)


def command_line_error(error: TyperException) -> BadCommandLine:
    """The error as a headrace error; its fix is the nearest name, or the command's help."""
    message, _, near = error.format_message().rstrip(".?").partition(". Did you mean ")
    command = getattr(error, "ctx", None)
    path = command.command_path if command else "headrace"
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    fix = f"Did you mean {near}?" if near else f"see {path} --help"
    if option := getattr(error, "possibilities", None) and getattr(error, "option_name", None):
        message, fix = f'there is no option "{option}"', suggestion(option, _options(command), fix)
    return BadCommandLine(message[:1].lower() + message[1:], where=path, fix=fix)


def is_help(error: TyperException) -> bool:
    """Whether the "error" is the help of a command that was called without arguments."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _options(command: Any) -> list[str]:
    return [name for parameter in command.command.params for name in parameter.opts] if command else []
