"""Limits on the size of function results and on the time of a regular expression search.

A short statement must neither exhaust memory nor block other queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import AnyStr, ParamSpec, TypeVar

from headrace.errors import PatternTooSlow, ResultTooLong

REGEX_TIMEOUT_SECONDS = 0.5
"""Maximum CPU seconds of one search."""
MAX_TEXT_LENGTH = 16 << 20
"""Maximum characters or bytes of a function's text result."""
MAX_LIST_ITEMS = 1_000_000
"""Maximum items of a function's list result."""
MAX_CACHED_TEXT = 4096
"""Maximum characters of a text that is kept in a cache."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def check_length(length: int) -> None:
    if length > MAX_TEXT_LENGTH:
        raise ResultTooLong(f"a string of {length} characters is too long", fix=f"use at most {MAX_TEXT_LENGTH}")


def join_bounded(separator: AnyStr, parts: Sequence[AnyStr]) -> AnyStr:
    check_length(sum(map(len, parts)) + len(separator) * (len(parts) - 1))
    return separator.join(parts)


def check_items(count: int) -> None:
    if count > MAX_LIST_ITEMS:
        raise ResultTooLong(f"a list of {count} items is too long", fix=f"use at most {MAX_LIST_ITEMS}")


def cache_short(size: int) -> Callable[[Callable[[str], _Result]], Callable[[str], _Result]]:
    """Decorates a function of a text: results are cached, but not those of texts that would fill the memory."""

    def cached(compute: Callable[[str], _Result]) -> Callable[[str], _Result]:
        cached_compute = lru_cache(size)(compute)
        return wraps(compute)(lambda text: (cached_compute if len(text) <= MAX_CACHED_TEXT else compute)(text))

    return cached


def report_regex_timeout(search: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorates a function that searches with `REGEX_TIMEOUT_SECONDS`: a timeout raises PatternTooSlow."""

    @wraps(search)
    def bounded(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return search(*args, **kwargs)
        except TimeoutError:
            what = f"a regular expression took longer than {REGEX_TIMEOUT_SECONDS:g} s"
            raise PatternTooSlow(what, fix="avoid nested repetitions in it") from None

    return bounded
