"""What functions may create for a record, and for a pull query: a short statement must not exhaust memory.

Generated code opens an allowance for each record, and charges it with the result of every function that can grow its
input, and of every function inside a lambda, which is called for each item. One result is bounded by `plan.limits`.

A streaming query's record that exceeds it becomes a dead letter, like any other that cannot be computed. A pull query
has one allowance for the rows that are in memory at once, and ends with an error: null instead of a result would be
wrong. Its allowance is also where a query that was cancelled ends, in the middle of a row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from sys import getsizeof
from typing import Any, TypeVar

from headrace.errors import HeadraceError, QueryEnded, QueryTooLarge, ResultTooLong
from headrace.plan.limits import check_items, check_length

MAX_RECORD_BYTES = 128 << 20
"""Maximum bytes that functions may create for one record."""
_SHORT = 200
"""Bytes that a short text counts for."""
_NUMBER = 32
"""Bytes that a number or a null counts for, with its place in a row."""

Value = TypeVar("Value")
Item = TypeVar("Item")


class Allowance:
    """The allowance of one record after the other."""

    def __init__(self, limit: int = MAX_RECORD_BYTES, *, per_record: bool = True) -> None:
        self.limit, self.per_record = limit, per_record
        self.used = 0

    def charge(self, value: Value, function: str) -> Value:
        """Returns the value; raises if the function's results are too large."""
        # Most values are short texts; this runs for each record.
        used = self.used + (_SHORT if type(value) is str and len(value) < _SHORT else _size(value))
        if used > self.limit:
            raise self._exceeded(function)
        self.used = used
        return value

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Applies to what the current thread computes."""
        before = _CURRENT.allowance
        _CURRENT.allowance = self
        try:
            yield
        finally:
            _CURRENT.allowance = before

    def hold(self, size: int, clause: str) -> None:
        """Charges bytes that are stored until the end of the query; a record stores nothing."""

    def _exceeded(self, function: str) -> HeadraceError:
        return ResultTooLong(
            f"the functions of one record create more than {self.limit >> 20} MB; {function} was the last",
            fix="let them create less: shorter strings, shorter lists, fewer columns",
        )


class QueryAllowance(Allowance):
    """The allowance of a pull query, for a batch of rows; 0 is no limit but that of a record."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit or MAX_RECORD_BYTES, per_record=not limit)
        self._held = 0
        self.ended: QueryEnded | None = None
        """Set from another thread: why the query was ended."""

    def begin_batch(self) -> None:
        self.used = 0

    def charge(self, value: Value, function: str) -> Value:
        if self.ended is not None:
            raise self.ended
        return super().charge(value, function)

    def hold(self, size: int, clause: str) -> None:
        if self.ended is not None:
            raise self.ended
        self._held += size
        if self._held > self.limit and not self.per_record:
            raise QueryTooLarge(
                f"the query stores more than {self.limit >> 20} MB for {clause}",
                fix="select fewer rows or columns, add LIMIT, or raise the setting query.pull_max_bytes",
            )

    def _exceeded(self, function: str) -> HeadraceError:
        return QueryTooLarge(
            f"the query's functions create more than {self.limit >> 20} MB for 1,000 rows; {function} was the last",
            fix="let them create less: shorter strings, shorter lists, fewer columns; or raise the setting "
            "query.pull_max_bytes",
        )

    def over(self, batches: Iterator[Item]) -> Iterator[Item]:
        """Computes batches with this allowance. Each may be computed by another thread."""
        while True:
            if self.ended is not None:
                raise self.ended
            self.begin_batch()
            with self.applied():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


class _Current(threading.local):
    """The allowance of the thread; each thread begins with one for records."""

    def __init__(self) -> None:
        self.allowance = Allowance()


_CURRENT = _Current()


def begin_record() -> Allowance:
    """Returns the allowance of the record that is now computed."""
    allowance = _CURRENT.allowance
    if allowance.per_record:
        allowance.used = 0
    return allowance


def record_allowance() -> Allowance:
    """Returns the allowance of the record that is being computed."""
    return _CURRENT.allowance


# -- sizes ----------------------------------------------------------------------------------------------------------


def stored_size(value: Any) -> int:
    """The approximate bytes of a value with everything inside."""
    measure = _STORED.get(type(value))
    return _NUMBER if measure is None else measure(value)


def growth(before: Any, after: Any) -> int:
    """By how many bytes an aggregate's value has grown. Of a list or map only what is new is measured."""
    if type(after) not in _STORED:
        return 0
    if isinstance(after, list) and isinstance(before, list):
        return sum(map(stored_size, after[len(before) :]))
    if isinstance(after, dict) and isinstance(before, dict):
        added = islice(reversed(after), max(0, len(after) - len(before)))
        return sum(stored_size(key) + stored_size(after[key]) for key in added)
    return max(0, stored_size(after) - stored_size(before))


def _stored_list(value: list[Any] | tuple[Any, ...]) -> int:
    return getsizeof(value) + sum(map(stored_size, value))


def _stored_map(value: dict[Any, Any]) -> int:
    return getsizeof(value) + sum(map(stored_size, chain(value, value.values())))


_STORED: dict[type, Callable[[Any], int]] = {
    str: getsizeof,
    bytes: getsizeof,
    list: _stored_list,
    tuple: _stored_list,
    dict: _stored_map,
}


def _size(value: Any) -> int:
    measure = _MEASURES.get(type(value))
    return 0 if measure is None else measure(value)


def _text(value: str | bytes) -> int:
    check_length(len(value))
    return getsizeof(value)


def _list(value: list[Any]) -> int:
    """Counts the items too, but not what is inside them: what created that was charged for it."""
    check_items(len(value))
    return getsizeof(value) + sum(map(getsizeof, value))


def _map(value: dict[Any, Any]) -> int:
    check_items(len(value))
    return getsizeof(value) + sum(map(getsizeof, chain(value, value.values())))


_MEASURES: dict[type, Callable[[Any], int]] = {str: _text, bytes: _text, list: _list, dict: _map}
