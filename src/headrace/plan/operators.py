"""Operators of the user's own, found by name in any case: what they give out and how they work on one key's state.
One of ours (an alert's rule) is of the same kind, but has no name that a statement could call: it is part of a plan.

An operator is asked for one event or one timer of one key at a time. It gets the key's state and gives a new one, rows
and timers; it keeps nothing itself. So what it does is as repeatable as everything else in a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from headrace.errors import UnknownFunction
from headrace.plan.nodes import Relation
from headrace.schema import Field


@dataclass
class Outcome:
    """What follows from an event or a timer. A state of None is none; a timer of None is no longer waited for."""

    state: Any = None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    timers: dict[str, int | None] = field(default_factory=dict)


class Work(Protocol):
    """An operator over one input. `state` is a plain value, and stays as it is if this raises."""

    def event(self, state: Any, now: int, time: int, key: tuple[Any, ...], row: Any) -> Outcome:
        """A row. `now` is stream time, which a late row is behind."""
        ...

    def timer(self, state: Any, at: int, key: tuple[Any, ...], name: str) -> Outcome:
        """Time has come to `at`."""
        ...


@dataclass(frozen=True)
class OperatorKind:
    """An operator as it was declared. `output` are the columns beside the key, which stays what it is."""

    name: str
    doc: str
    output: tuple[Field, ...]
    work: Callable[[Relation], Work] = field(compare=False)
    version: str = ""
    """What tells its code from another's; one of ours has none."""
    deletions: bool = False
    """Whether it takes rows without a payload, too, as None."""

    @property
    def is_ours(self) -> bool:
        return not self.version


_OPERATORS: dict[str, OperatorKind] = {}
OPERATORS: Mapping[str, OperatorKind] = _OPERATORS


def declare(kind: OperatorKind) -> None:
    """Add an operator. One that has the name already makes way, for statements still to come; plans that were made
    with it keep it."""
    _OPERATORS[kind.name.upper()] = kind


def withdraw(kind: OperatorKind) -> None:
    """Let statements still to come have it no longer."""
    if _OPERATORS.get(name := kind.name.upper()) is kind:
        del _OPERATORS[name]


def unknown(name: str) -> UnknownFunction:
    """The error for a name that is not among them."""
    close = get_close_matches(name.upper(), OPERATORS, n=1)
    known = ", ".join(OPERATORS) or "none"
    return UnknownFunction(
        f"Can't find any operators with the name '{name}'",
        fix=f"did you mean {close[0]}?" if close else f"operators are: {known}",
    )
