"""Option values with their own syntax: durations, sizes, NAME=VALUE pairs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

import typer

from headrace.settings import Size, parse_duration, parse_size


def parsed_option(parse: Callable[[str], Any], metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option whose text is parsed by `parse`; a ValueError is reported as a usage error."""

    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    convert.__name__ = metavar
    return typer.Option(*names, parser=convert, metavar=metavar, help=help, **more)


def duration_option(help: str, *names: str) -> Any:
    return parsed_option(parse_duration, "DURATION", help, *names)


def size_option(help: str, *names: str) -> Any:
    return parsed_option(parse_size, "SIZE", help, *names)


def parse_pair(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError("write NAME=VALUE")
    return name, value


Headers = Annotated[list[Any] | None, parsed_option(parse_pair, "NAME=VALUE", "Header. Repeatable.", "--header")]
Visibility = Annotated[timedelta, duration_option("Time to acknowledge a message, before it is delivered again.")]

__all__ = ["Headers", "Size", "Visibility", "duration_option", "parse_pair", "parsed_option", "size_option"]
