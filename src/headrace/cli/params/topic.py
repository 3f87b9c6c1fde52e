"""The options of `topic create` and `topic alter`, generated from the fields of `TopicSpec` and their docs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, get_args, get_type_hints

import typer

from headrace.cli.params.values import parsed_option
from headrace.contracts import TOPIC_OPTIONS, TopicSpec
from headrace.schema import Schema
from headrace.settings import Size, parse_duration, parse_size

NO_LIMIT = "none"

# How each type of field is parsed from the command line.
_READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    timedelta: (parse_duration, "DURATION"),
    Size: (parse_size, "SIZE"),
    Schema: (Schema.parse, "COLUMNS"),
}


def topic_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `**options` one option for each field; options that are not given are not passed."""

    def call(*args: Any, **arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in TOPIC_OPTIONS}
        present = {name: value for name, value in options.items() if value is not None}
        command(*args, **arguments, **{n: None if v == NO_LIMIT else v for n, v in present.items()})

    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters = [*own, *_parameters()]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    return call


def _parameters() -> list[inspect.Parameter]:
    hints = get_type_hints(TopicSpec)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=None, annotation=_annotation(field, hints[field.name]))
        for field in dataclasses.fields(TopicSpec)
    ]


def _annotation(field: dataclasses.Field[Any], hint: Any) -> Any:
    doc, flag = TOPIC_OPTIONS[field.name], f"--{field.name.replace('_', '-')}"
    optional = type(None) in get_args(hint)
    of = next(t for t in (*get_args(hint), hint) if t is not type(None))
    if of is bool:
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=doc, show_default=False)]
    if of not in _READERS:
        return Annotated[of | None, typer.Option(flag, help=doc, show_default=False)]
    read, metavar = _READERS[of]
    unlimited = f' "{NO_LIMIT}" for no limit.' if optional else ""
    return Annotated[
        Any, parsed_option(_or_no_limit(read, optional), metavar, doc + unlimited, flag, show_default=False)
    ]


def _or_no_limit(read: Callable[[str], Any], optional: bool) -> Callable[[str], Any]:
    return lambda text: NO_LIMIT if optional and text.lower() == NO_LIMIT else read(text)
