"""User-defined operators by name in any case: their output columns, and how they process one key's state.

An alert's rule is an operator too, but has no name that a statement could call: it is part of a plan.

An operator is called for one event or one timer of one key at a time. It gets the key's state and returns a new one,
rows and timers; it keeps no state itself. So it is as repeatable as everything else in a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.errors import UnknownFunction, suggestion
from headrace.plan.relations import Relation
from headrace.schema import Field


@dataclass
class OperatorResult:
    """The result of an event or a timer. A state of None deletes the state; a timer of None is cancelled."""

    state: Any = None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    timers: dict[str, int | None] = field(default_factory=dict)


class OperatorInstance(Protocol):
    """An operator over one input. `state` is a plain value, and does not change if the operator raises."""

    def event(self, state: Any, now: int, time: int, key: tuple[Any, ...], row: Any) -> OperatorResult:
        """Handles a row. `now` is stream time; a late row has an earlier time."""
        ...

    def timer(self, state: Any, at: int, key: tuple[Any, ...], name: str) -> OperatorResult:
        """Handles a timer that fires at `at`."""
        ...


@dataclass(frozen=True)
class OperatorDefinition:
    """The declaration of an operator. `output` are the columns without the key, which does not change."""

    name: str
    doc: str
    output: tuple[Field, ...]
    work: Callable[[Relation], OperatorInstance] = field(compare=False)
    version: str = ""
    """Version of the operator's code; empty for a built-in one."""
    deletions: bool = False
    """Whether it also takes rows without a payload, as None."""

    @property
    def is_ours(self) -> bool:
        return not self.version


_OPERATORS: dict[str, OperatorDefinition] = {}
OPERATORS: Mapping[str, OperatorDefinition] = _OPERATORS


def declare(kind: OperatorDefinition) -> None:
    """Adds an operator. It replaces one of the same name for later statements; existing plans keep theirs."""
    _OPERATORS[kind.name.upper()] = kind


def withdraw(kind: OperatorDefinition) -> None:
    """Removes an operator for later statements."""
    if _OPERATORS.get(name := kind.name.upper()) is kind:
        del _OPERATORS[name]


def unknown_operator(name: str) -> UnknownFunction:
    """Returns the error for an unknown operator name."""
    known = ", ".join(OPERATORS) or "none"
    return UnknownFunction(
        f"Can't find any operators with the name '{name}'",
        fix=suggestion(name, OPERATORS, f"operators are: {known}"),
    )
