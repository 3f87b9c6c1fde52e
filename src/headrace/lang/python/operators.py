"""User-defined operators with state and timers per key, like Storm's bolts.

    >>> import headrace as hr
    >>> class Visits(hr.Operator):
    ...     "A visit ends when half a minute passes without a click."
    ...     output = "pages BIGINT"
    ...
    ...     def on_event(self, event, ctx):
    ...         ctx.state = (ctx.state or 0) + 1
    ...         ctx.set_timer(event.time + 30_000)
    ...
    ...     def on_timer(self, timer, ctx):
    ...         ctx.emit(pages=ctx.state)
    ...         ctx.state = None
    >>> app = hr.App()
    >>> clicks = app.stream("clicks", "user STRING KEY, page STRING")
    >>> visits = clicks.operate(Visits).to_stream("visits")
    >>> with hr.testing.run(app) as trial:
    ...     trial.send("clicks", [{"user": "ann", "page": "/"}, {"user": "ann", "page": "/shop"}])
    ...     trial.advance(minutes=1)
    ...     trial.rows("visits")
    [{'user': 'ann', 'pages': 2}]

In KSQL it is `SELECT * FROM visits(TABLE clicks)`. An operator keeps everything in `ctx.state`, nothing in itself:
after a crash, and in a replay, it is called again. If it raises, the state stays as it was, nothing is emitted, and the
row becomes a dead letter `operator-failed`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from headrace.errors import BadPython
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.python.annotations import TypeMapping, mapping_of_type
from headrace.lang.python.call_site import call_site
from headrace.lang.python.code_version import version_of
from headrace.lang.python.expressions import errors_at_call, written_columns
from headrace.plan.operators import OperatorDefinition, OperatorResult, declare
from headrace.plan.relations import Relation
from headrace.schema import Field


class Event:
    """A row: its columns, the key's included, by name or as attributes, and its time in ms."""

    __slots__ = ("time", "values")

    def __init__(self, time: int, values: dict[str, Any]) -> None:
        self.time = time
        self.values = values

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"the row has no column {name!r}; its columns are {', '.join(self.values)}") from None

    def __repr__(self) -> str:
        return f"Event({self.time}, {self.values})"


@dataclass(frozen=True)
class Timer:
    """A timer that has fired: its time, its name, and the key's columns."""

    time: int
    name: str
    key: dict[str, Any]


class KeyContext:
    """The context of a call for one key. It is discarded if the operator raises.

    `state` is None at first, and again when it is set to None. It may be a number, a string, a list, a dict and so on,
    of any depth; it is written with every change, so keep it small. `now` is stream time in ms.
    """

    def __init__(self, state: Any, now: int, output: Sequence[tuple[str, TypeMapping]]) -> None:
        self.state = state
        self.now = now
        self._output = output
        self._rows: list[tuple[Any, ...]] = []
        self._timers: dict[str, int | None] = {}

    def emit(self, **columns: Any) -> None:
        """Emit a row, under the same key and with the time of the event or timer."""
        names = [name for name, _ in self._output]
        if unknown := [name for name in columns if name not in names]:
            raise ValueError(f"the output has no column {unknown[0]!r}; its columns are {', '.join(names)}")
        self._rows.append(tuple(kind.write(columns.get(name)) for name, kind in self._output))

    def set_timer(self, at: int, name: str = "") -> None:
        """Call `on_timer` when stream time reaches `at` (ms); a key has one timer per name, the last that was set."""
        if type(at) is not int or at < 0:
            raise ValueError(f"{at!r} is not a time in milliseconds since 1970")
        self._timers[name] = at

    def cancel_timer(self, name: str = "") -> None:
        self._timers[name] = None

    def outcome(self) -> OperatorResult:
        return OperatorResult(_plain(self.state), self._rows, self._timers)


class Operator:
    """Base class: declare the output columns without the key; define `on_event` and, with timers, `on_timer`."""

    output: ClassVar[str] = ""
    """Columns as in KSQL: `"pages BIGINT, spent DOUBLE"`."""
    version: ClassVar[str] = ""
    """A query resumes with its state as long as this stays the same; by default it is derived from the code."""

    def on_event(self, event: Event, ctx: KeyContext) -> None:
        """Called for each row."""
        raise NotImplementedError(f"{type(self).__name__} does not implement on_event")

    def on_timer(self, timer: Timer, ctx: KeyContext) -> None:
        """Called when a timer fires."""
        raise NotImplementedError(f"{type(self).__name__} does not implement on_timer")


def declare_operator(operator: type[Operator], name: str | None = None) -> OperatorDefinition:
    """Declare an operator, by default under its class's name."""
    if not (inspect.isclass(operator) and issubclass(operator, Operator)) or not operator.output:
        raise BadPython(
            f'"{getattr(operator, "__name__", operator)}" is not an operator',
            where=call_site().where,
            fix='inherit from headrace.Operator and declare its output: output = "pages BIGINT"',
        )
    doc = (inspect.getdoc(operator) or operator.__name__).splitlines()[0]
    with errors_at_call():
        elements = written_columns(operator.output)
        output = tuple(Field(element.name, plan_type(element.type, {})) for element in elements)
    kind = OperatorDefinition(
        (name or operator.__name__).upper(),
        doc,
        output,
        lambda input: OperatorAdapter(operator(), input, output),
        operator.version or version_of(operator),
    )
    declare(kind)
    return kind


class OperatorAdapter:
    """Runs an operator over one input: converts chain values to Python values, and back."""

    def __init__(self, operator: Operator, input: Relation, output: Sequence[Field]) -> None:
        self._operator = operator
        self._key = _translations(input.key)
        self._row = _translations(input.value)
        self._output = _translations(output)

    def event(self, state: Any, now: int, time: int, key: tuple[Any, ...], row: tuple[Any, ...]) -> OperatorResult:
        keyed = KeyContext(_plain(state), now, self._output)
        self._operator.on_event(Event(time, _values_by_name(self._key, key) | _values_by_name(self._row, row)), keyed)
        return keyed.outcome()

    def timer(self, state: Any, at: int, key: tuple[Any, ...], name: str) -> OperatorResult:
        keyed = KeyContext(_plain(state), at, self._output)
        self._operator.on_timer(Timer(at, name, _values_by_name(self._key, key)), keyed)
        return keyed.outcome()


def python_name(name: str) -> str:
    """Return a column's name in Python."""
    return name.lower() if name == name.upper() else name


def _translations(fields: Sequence[Field]) -> list[tuple[str, TypeMapping]]:
    return [(python_name(field.name), mapping_of_type(field.type)) for field in fields]


def _values_by_name(columns: Sequence[tuple[str, TypeMapping]], values: Sequence[Any]) -> dict[str, Any]:
    return {name: kind.read(value) for (name, kind), value in zip(columns, values, strict=True)}


_ATOMS = (type(None), bool, int, float, str, bytes, Decimal)


def _plain(value: Any) -> Any:
    """Return a private copy of a value that a state may contain; others are rejected."""
    if type(value) in _ATOMS:
        return value
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    raise TypeError(f"{value!r} cannot be stored in state: use numbers, strings, lists, tuples and dicts")
