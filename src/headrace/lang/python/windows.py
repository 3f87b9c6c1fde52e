"""Windows: how rows of a group are grouped by time.

>>> import headrace as hr
>>> hr.tumbling(minutes=1, grace=hr.seconds(10)).size
datetime.timedelta(seconds=60)
"""

from __future__ import annotations

from datetime import timedelta

from headrace.errors import BadPython
from headrace.lang.ksql import ast
from headrace.lang.python.call_site import call_site

Window = ast.WindowClause


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def tumbling(
    size: timedelta | None = None,
    *,
    grace: timedelta | None = None,
    retention: timedelta | None = None,
    idle: timedelta | None = None,
    processing: bool = False,
    **units: float,
) -> Window:
    """Consecutive windows of a fixed size: `tumbling(minutes=5)`.

    `grace` is how long after its end a window still accepts late rows (default: a day). All windows close after `idle`
    without any row. With `processing` windows are by processing time.
    """
    return _window("TUMBLING", _length(size, units), None, grace, retention, idle, processing)


def hopping(
    size: timedelta,
    every: timedelta,
    *,
    grace: timedelta | None = None,
    retention: timedelta | None = None,
    idle: timedelta | None = None,
    processing: bool = False,
) -> Window:
    """Overlapping windows of a fixed size, a new one `every` so often: `hopping(minutes(5), every=minutes(1))`."""
    return _window("HOPPING", size, every, grace, retention, idle, processing)


def session(
    gap: timedelta | None = None,
    *,
    grace: timedelta | None = None,
    retention: timedelta | None = None,
    **units: float,
) -> Window:
    """Sessions: rows of a key at most the gap apart: `session(minutes=30)`."""
    return _window("SESSION", _length(gap, units), None, grace, retention, None, False)


def sliding(size: timedelta | None = None, *, grace: timedelta | None = None, **units: float) -> Window:
    """Windows of a fixed size, each ended by a row: `sliding(minutes=5)`."""
    return _window("SLIDING", _length(size, units), None, grace, None, None, False)


def _window(
    kind: str,
    size: timedelta,
    advance: timedelta | None,
    grace: timedelta | None,
    retention: timedelta | None,
    idle: timedelta | None,
    processing: bool,
) -> Window:
    return Window(kind, size, advance, retention, grace, idle=idle, processing=processing, span=call_site())


def _length(size: timedelta | None, units: dict[str, float]) -> timedelta:
    try:
        length = size or timedelta(**units)
    except TypeError:
        length = timedelta(0)
    if not length:
        raise BadPython(
            "a window requires a size",
            where=call_site().where,
            fix="write, for example, tumbling(minutes=5), or pass a timedelta",
        )
    return length
