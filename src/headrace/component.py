"""Component registry: a component declares its name, summary, typed options (default, one line of doc) and factory.

Option parsing, error messages and the reference page come from this one declaration. To add a component, write one
module that calls `register`; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import BadOption, UnknownComponent, suggestion
from headrace.settings import parse_value


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a component. Without a default it is required."""

    name: str
    type: type
    doc: str
    default: Any = ...
    secret: bool = False

    @property
    def required(self) -> bool:
        return self.default is ...


@dataclass(frozen=True)
class Component:
    """A declared component: `kind` is its role (log, partitioner, format, source, sink ...)."""

    kind: str
    name: str
    summary: str
    factory: Callable[..., Any]
    options: tuple[Option, ...] = ()

    def build(self, options: Mapping[str, Any]) -> Any:
        """Create an instance; options are text or values."""
        return self.factory(**self.parse(options))

    def parse(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Check names and types of options and fill in defaults."""
        known = {option.name: option for option in self.options}
        for name in options:
            if name not in known:
                raise BadOption(
                    f'{self.kind} "{self.name}" has no option "{name}"', fix=_suggest(name, known, "options are")
                )
        values: dict[str, Any] = {}
        for option in self.options:
            if option.name in options:
                values[option.name] = self._value(option, options[option.name])
            elif option.required:
                raise BadOption(f'{self.kind} "{self.name}" needs option "{option.name}"', fix=option.doc)
            else:
                values[option.name] = option.default
        return values

    def _value(self, option: Option, value: Any) -> Any:
        if not isinstance(value, str) or option.type is str:
            return value
        try:
            return parse_value(option.type, value)
        except ValueError as error:
            raise BadOption(
                f'option "{option.name}" of {self.kind} "{self.name}" cannot be {value!r}: {error}', fix=option.doc
            ) from error


_REGISTRY: dict[tuple[str, str], Component] = {}


def register(component: Component) -> Component:
    """Register a component under its kind and name; the last declaration wins."""
    _REGISTRY[component.kind, component.name] = component
    return component


def components(kind: str | None = None) -> list[Component]:
    """All registered components, or those of one kind, ordered by kind and name."""
    return [c for key, c in sorted(_REGISTRY.items()) if kind in (None, key[0])]


def component(kind: str, name: str) -> Component:
    """The component of that kind and name."""
    declared = _REGISTRY.get((kind, name))
    if declared is None:
        names = {c.name: c for c in components(kind)}
        raise UnknownComponent(f'{kind} "{name}" does not exist', fix=_suggest(name, names, f"{kind}s are"))
    return declared


def _suggest(name: str, known: Mapping[str, Any], otherwise: str) -> str:
    return suggestion(name, known, f"{otherwise}: {', '.join(sorted(known)) or 'none'}")
