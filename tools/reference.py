"""Writes `docs/reference/` from the declarations in the code; `--check` only says whether it is up to date.

Run it from the repository's root: `python -m tools.reference [--check]`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from typer.main import get_command

from headrace import cli
from headrace.component import Option, components
from headrace.contracts import TOPIC_OPTIONS, TopicSpec
from headrace.errors import CODES, HeadraceError, Retry, Stop, UserError
from headrace.schema import Schema
from headrace.serve.api.app import PREFIX, ROUTES
from headrace.serve.api.parameters import PAYLOAD, Parameter, parameters_of
from headrace.serve.api.route import Route
from headrace.settings import Size, declared_settings, duration_text, size_text
from headrace.settings.sections import SECTIONS
from tools.function_pages import functions

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MARK = "<!-- Generated from the code by tools/reference.py: run `make docs` to update it. -->"

# Modules that declare components.
DECLARING = (
    "headrace.formats.lookup",
    "headrace.log.partitioners",
    "headrace.log.embedded.log",
    "headrace.log.kafka",
    "headrace.plan.notifiers",
)


# -- commands ---------------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "Global options stand before the command: `headrace --data DIR topic list`.\n"
    yield from _program()
    yield "Exit codes: 0 done, 1 failed, 2 wrong command line, 75 may succeed later, 130 interrupted.\n"
    for path, command in walk():
        yield f"## headrace {' '.join(path)}\n"
        yield from _command(command, f"headrace {' '.join(path)}")


def walk() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, by their words."""
    yield from _walk((), get_command(cli.app))


def _walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from _walk((*path, name), command.get_command(None, name))


def _program() -> Iterator[str]:
    root = get_command(cli.app)
    yield _table(("option", "meaning"), [_option(p) for p in root.params if "completion" not in p.name])


def _command(command: Any, name: str) -> Iterator[str]:
    text = inspect.cleandoc(command.help or "").replace("\f", "").split("\n\n")
    examples = [part.removeprefix("Example: ") for part in text if part.startswith("Example: ")]
    yield "\n\n".join(" ".join(part.split()) for part in text if not part.startswith("Example: ")) + "\n"
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    words = [name, *(_usage(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    yield f"```sh\n{' '.join(words)}\n```\n"
    if arguments:
        yield _table(("argument", "meaning"), [(f"`{_usage(p)}`", p.help or "") for p in arguments])
    if options:
        yield _table(("option", "meaning"), [_option(p) for p in options])
    if examples:
        lines = "\n".join(" ".join(example.split()) for example in examples)
        yield f"{'Examples' if len(examples) > 1 else 'Example'}:\n\n```sh\n{lines}\n```\n"


def _usage(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    name = name if parameter.required else f"[{name}]"
    return name if parameter.nargs == 1 else f"{name}..."


def _option(parameter: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    is_plain = parameter.default is not None and not isinstance(parameter.default, bool) and parameter.default != ()
    shows_default = is_plain and parameter.show_default and not callable(parameter.default)
    default = f" Default: {_default(parameter.default)}." if shows_default else ""
    return names, (parameter.help or "") + default


def _default(value: Any) -> str:
    return f"`{getattr(value, 'value', None) or _text(value)}`"


# -- settings, errors, components, topics -----------------------------------------------------------------------------


def settings() -> Iterator[str]:
    yield "# Settings\n"
    yield (
        "Settings come from `headrace.toml` in the working folder (or the file that `--config` or `HEADRACE_CONFIG` "
        "names), from the environment, and from flags; later ones take precedence. `headrace settings` shows each "
        "value and its origin.\n"
    )
    yield (
        "The file has a section for each group of settings. Elsewhere the name of the section comes first: "
        "`HEADRACE_SPARK_MASTER` in the environment, `hr.run(app, spark_master=...)` in Python.\n"
    )
    yield '```toml\n[spark]\nmaster = "local[4]"\n```\n'
    for section, kind in SECTIONS.items():
        yield f"## {section}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n"
        specs = [spec for spec in declared_settings() if spec.section == section]
        rows = [(f"`{s.name}`", f"`{_text(s.default)}`" if s.default != "" else "", s.doc) for s in specs]
        yield _table(("setting", "default", "meaning"), rows)


def errors() -> Iterator[str]:
    yield "# Errors\n"
    yield "Every error has a stable code. *Then* says what to do about the same request.\n"
    rows = [(f"`{code}`", inspect.cleandoc(CODES[code].__doc__ or ""), _then(CODES[code])) for code in sorted(CODES)]
    yield _table(("code", "meaning", "then"), rows)


def _then(error: type[HeadraceError]) -> str:
    ways = {UserError: "change it", Retry: "try again later", Stop: "a person must act first"}
    return next((text for kind, text in ways.items() if issubclass(error, kind)), "")


def component_pages() -> Iterator[str]:
    yield "# Components\n"
    yield "Parts that are chosen by name.\n"
    for module in DECLARING:
        importlib.import_module(module)
    for kind in dict.fromkeys(component.kind for component in components()):
        yield f"## {kind}\n"
        for component in components(kind):
            yield f"### {component.name}\n\n{component.summary}\n"
            if component.options:
                yield _table(("option", "default", "meaning"), [_component_option(o) for o in component.options])


def _component_option(option: Option) -> tuple[str, str, str]:
    default = "required" if option.required else f"`{_text(option.default)}`" if option.default != "" else ""
    return f"`{option.name}`", default, option.doc + (" Secret." if option.secret else "")


def topic_options() -> Iterator[str]:
    yield "# Topic options\n"
    yield "For `headrace topic create` and `headrace topic alter`, and the fields of `TopicSpec`.\n"
    fields = dataclasses.fields(TopicSpec)
    rows = [
        (f"`--{f.name.replace('_', '-')}`", f"`{f.name}`", f"`{_text(f.default)}`", TOPIC_OPTIONS[f.name])
        for f in fields
    ]
    yield _table(("option", "field", "default", "meaning"), rows)


# -- the API over HTTP ------------------------------------------------------------------------------------------------


def api() -> Iterator[str]:
    yield "# API\n"
    yield (
        f"Paths are below `{PREFIX}`; `GET {PREFIX}/openapi.json` tells the same to programs. How it is used is in "
        "[the guide](../guide/api.md). `GET /metrics` has the server's numbers in the text format of Prometheus.\n"
    )
    for noun, routes in groupby(ROUTES, key=lambda route: route.path.split("/")[1]):
        yield f"## {noun}\n"
        for route in routes:
            yield from _route(route)


def _route(route: Route) -> Iterator[str]:
    yield f"### {route.method} {route.path}\n\n{route.doc}\n"
    declared = () if route.parameters is None else parameters_of(route.parameters)
    rows = [(f"`{one.name}`", one.place, _left_out(one), one.doc) for one in declared if one.place != PAYLOAD]
    if rows:
        yield _table(("parameter", "in", "default", "meaning"), rows)
    for one in declared:
        if one.place == PAYLOAD:
            yield f"Body: {one.doc} Content types: {', '.join(f'`{kind}`' for kind in one.types)}.\n"


def _left_out(one: Parameter) -> str:
    return "required" if one.required else "" if one.default in (None, ()) else f"`{_text(one.default)}`"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Schema):
        return "raw" if value.is_raw else str(value)
    if isinstance(value, Size):
        return size_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines) + "\n"


PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "cli.md": commands,
    "settings.md": settings,
    "errors.md": errors,
    "components.md": component_pages,
    "topic-options.md": topic_options,
    "api.md": api,
    "functions.md": functions,
}


def stale() -> list[str]:
    """Names of the pages that are out of date."""
    return [n for n in PAGES if not (FOLDER / n).exists() or (FOLDER / n).read_text() != page(n)]


def page(name: str) -> str:
    return "\n".join([MARK, "", *PAGES[name]()])


def main(arguments: list[str]) -> int:
    stale_pages = stale()
    if arguments == ["--check"]:
        for name in stale_pages:
            print(f"docs/reference/{name} is stale: make docs", file=sys.stderr)
        return 1 if stale_pages else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale_pages:
        (FOLDER / name).write_text(page(name))
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
