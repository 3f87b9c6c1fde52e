"""Table functions: each returns a list, whose items become rows."""

from __future__ import annotations

from itertools import product
from typing import Any

from headrace.plan.functions.declaration import Function, Overload
from headrace.plan.limits import check_items


def _explode(items: list[Any]) -> list[Any]:
    return items


def _cube_explode(items: list[Any]) -> list[list[Any]]:
    """Returns every combination of items replaced by null. An item that is null already adds none."""
    check_items(2 ** sum(item is not None for item in items))
    choices = [(None,) if item is None else (None, item) for item in items]
    return [list(combination) for combination in product(*choices)]


FUNCTIONS = (
    Function(
        "EXPLODE",
        "One row for each item of an array; none for an empty or null array.",
        (Overload("(list: array<T>) -> T", _explode),),
        example=("EXPLODE(ARRAY[1, 2])", "1, 2"),
        area="table",
        table=True,
    ),
    Function(
        "CUBE_EXPLODE",
        "A row for each way to replace some items of an array by null, for totals over every combination of columns.",
        (Overload("(list: array<T>) -> array<T>", _cube_explode),),
        example=("CUBE_EXPLODE(ARRAY[1, 2])", "ARRAY[NULL, NULL], ARRAY[NULL, 2], ARRAY[1, NULL], ARRAY[1, 2]"),
        area="table",
        table=True,
    ),
)
