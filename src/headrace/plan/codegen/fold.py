"""Combines several aggregates into one: a row is added to all of them at once.

Their states are adjacent in a list, after the first `first` positions, which belong to the step (a time, a session's
bounds). The functions are generated, so that there is no loop over the aggregates for each row. An aggregate that
raises is reported as `aggregate-failed`; its state stays as it was before the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import QueryEnded
from headrace.plan.functions.declaration import Aggregator
from headrace.plan.nodes import AggregateCall
from headrace.plan.steps import Context, Problem, Row

Entry = list[Any]


@dataclass(frozen=True)
class Fold:
    """`add(entry, values, number)` and `undo(entry, values)` change the entry, `merge(entry, other)` the first of the
    two.

    `values` are the arguments of all aggregates in a row, from position `at` on. `number` counts the rows of a group.
    """

    blank: Callable[[], Entry]
    add: Callable[[Entry, Row, int], None]
    result: Callable[[Entry], Row]
    merge: Callable[[Entry, Entry], None] | None
    undo: Callable[[Entry, Row], None] | None


def fold(calls: Sequence[AggregateCall], context: Context, *, first: int, at: int) -> Fold:
    aggregators = [call.overload.make([a.type for a in call.arguments], call.constants) for call in calls]
    names: dict[str, Any] = {"failed": _reporter(calls, context, at)}
    blank, add, undo, merge, results = [], [], [], [], []
    for n, (call, aggregator) in enumerate(zip(calls, aggregators, strict=True)):
        names |= {f"add{n}": aggregator.add, f"undo{n}": aggregator.undo, f"result{n}": aggregator.result}
        names |= {f"merge{n}": aggregator.merge, f"initial{n}": aggregator.initial}
        state, arguments = f"entry[{first + n}]", [f"values[{at + i}]" for i in range(len(call.arguments))]
        blank += [f"initial{n}()"]
        number = ["number"] if aggregator.ordered else []
        add += _guarded(state, f"add{n}({', '.join([state, *number, *arguments])})", n)
        undo += _guarded(state, f"undo{n}({', '.join([state, *arguments])})", n)
        merge += [f"{state} = merge{n}({state}, other[{first + n}])"]
        results += [state if aggregator.result is Aggregator.result else f"result{n}({state})"]
        at += len(call.arguments)
    return Fold(
        _function("", [f"return [{', '.join(['None'] * first + blank)}]"], names),
        _function("entry, values, number", add, names),
        _function("entry", [f"return ({''.join(f'{r}, ' for r in results)})"], names),
        _function("entry, other", merge, names) if all(a.merge for a in aggregators) else None,
        _function("entry, values", undo, names) if all(a.undo for a in aggregators) else None,
    )


def _guarded(state: str, call: str, n: int) -> list[str]:
    return ["try:", f"    {state} = {call}", "except Exception as error:", f"    failed(error, {n}, values)"]


def _function(parameters: str, body: Sequence[str], names: dict[str, Any]) -> Callable[..., Any]:
    source = "\n    ".join([f"def compiled({parameters}):", *body, "pass"])
    exec(compile(source, "<fold>", "exec"), names)
    return names.pop("compiled")


def _reporter(calls: Sequence[AggregateCall], context: Context, at: int) -> Callable[[Exception, int, Row], None]:
    """Returns the function that reports failures. The values before the arguments are the group: the reported key."""

    def failed(error: Exception, n: int, values: Row) -> None:
        if isinstance(error, QueryEnded | MemoryError):
            raise error
        reason = str(error) or type(error).__name__
        where = f"{calls[n].function} as {calls[n].name}"
        context.report(Problem("aggregate-failed", reason, where, key=values[:at], row=values))

    return failed
