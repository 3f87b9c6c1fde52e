"""What may be made of little, and how long that may take: a few letters of a statement must neither fill the memory nor
hold up everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import AnyStr, ParamSpec, TypeVar

from headrace.errors import PatternTooSlow, ResultTooLong

PATIENCE = 0.5
"""Seconds of the processor's time for one search."""
LONGEST = 16 << 20
"""Characters or bytes of a text that a function makes."""
MOST_ITEMS = 1_000_000
"""Of a list that a function makes."""

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def check_length(length: int) -> None:
    if length > LONGEST:
        raise ResultTooLong(f"a text of {length} characters is too long", fix=f"ask for {LONGEST} at most")


def joined(separator: AnyStr, parts: Sequence[AnyStr]) -> AnyStr:
    check_length(sum(map(len, parts)) + len(separator) * (len(parts) - 1))
    return separator.join(parts)


def check_items(count: int) -> None:
    if count > MOST_ITEMS:
        raise ResultTooLong(f"a list of {count} items is too long", fix=f"ask for {MOST_ITEMS} at most")


def in_time(search: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Of a function that searches with `PATIENCE`: what takes longer has a code of its own."""

    @wraps(search)
    def bounded(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        try:
            return search(*given, **named)
        except TimeoutError:
            what = f"a regular expression took longer than {PATIENCE:g} s"
            raise PatternTooSlow(what, fix="write it without repetitions inside repetitions") from None

    return bounded
