"""Formats help as plain text: no boxes, no Python types, paragraphs wrapped to the width of the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_METAVARS: Mapping[type, str] = {int: "NUMBER", float: "NUMBER", Path: "PATH"}


def format_plainly(command: Any) -> None:
    """Change how a command, and each of its subcommands, prints its help."""
    command.rich_markup_mode = None
    if command.help:
        command.help = _unwrapped(command.help)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            _argument(parameter)
        elif parameter.metavar is None and not parameter.is_flag:
            parameter.metavar = _metavar(parameter)
    for inner in getattr(command, "commands", {}).values():
        format_plainly(inner)


def _unwrapped(text: str) -> str:
    """Each paragraph as one line: the source's line breaks would appear in the middle of the terminal's lines."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _metavar(option: Any) -> str:
    described = option.type_descriptor
    if described.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in described.choices)
    return _METAVARS.get(described.annotation, "TEXT")


def _argument(argument: Any) -> None:
    """An argument is `NAME`, and `[NAME]...` in the usage line if it is optional and repeated."""
    argument.metavar = argument.metavar or argument.name.upper()
    usage = argument.metavar if argument.required else f"[{argument.metavar}]"
    usage = usage if argument.nargs == 1 else f"{usage}..."
    argument.get_usage_pieces = lambda ctx: [usage]
    argument.display_type_rich = lambda ctx: ""
