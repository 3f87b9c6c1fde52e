"""Shows the latest rows of a stream or table in a notebook, as a table that can update itself.

    running = hr.start(app)
    running.live("per_page")            # as the last line of a cell: shows the current rows
    running.live("per_page").watch()    # keeps updating until interrupted

It holds only the rows that it shows, and reads only new records, so a topic may have any size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from headrace.lang.python.dict_rows import Change, Row

ReadChanges = Callable[[], Sequence[Change]]
"""Returns the changes since the last call."""


class LiveRows:
    """For a table the rows that changed last, one per key; for a stream the last rows.

    `notice` says why rows are still missing, for example because the query is starting; empty if none are.
    """

    def __init__(
        self,
        name: str,
        read: ReadChanges,
        *,
        is_table: bool,
        limit: int = 20,
        notice: Callable[[], str] = lambda: "",
    ) -> None:
        self.name = name
        self._notice = notice
        self._read = read
        self._is_table = is_table
        self._limit = limit
        self._count = 0
        self._rows: dict[str, Row] = {}

    @property
    def rows(self) -> list[Row]:
        """The current rows, the latest last."""
        for key, row in self._read():
            self._count += 1
            slot = repr(key) if self._is_table else str(self._count)
            self._rows.pop(slot, None)
            if row is not None:
                self._rows[slot] = row
        for old in list(self._rows)[: -self._limit]:
            del self._rows[old]
        return list(self._rows.values())

    def watch(self, seconds: float | None = None, every: float = 0.5) -> None:
        """Show the rows repeatedly until interrupted, or for `seconds`; in place where that is possible."""
        show = _shower()
        try:
            for _ in _times(seconds, every):
                show(self)
        except KeyboardInterrupt:
            return

    def _repr_html_(self) -> str:
        rows = self.rows
        head = "".join(f"<th>{escape(name)}</th>" for name in _columns(rows))
        body = "".join(f"<tr>{_cells(row, _columns(rows))}</tr>" for row in rows)
        caption = f"<caption>{escape(self._title(rows))}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        rows = self.rows
        return "\n".join([self._title(rows), *map(str, rows)])

    def _title(self, rows: Sequence[Row]) -> str:
        counted = f"{self.name}: {len(rows)} rows"
        return f"{counted}; {notice}" if (notice := self._notice()) else counted


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(rows[0]) if rows else []


def _cells(row: Row, columns: Sequence[str]) -> str:
    return "".join(f"<td>{'' if row.get(name) is None else escape(str(row[name]))}</td>" for name in columns)


def _times(seconds: float | None, every: float) -> Iterator[None]:
    begun = time.monotonic()
    while True:
        yield
        if seconds is not None and time.monotonic() - begun + every > seconds:
            return
        time.sleep(every)


def _shower() -> Callable[[Any], None]:
    """A function that shows rows: in a notebook it replaces the cell's output, elsewhere it prints."""
    try:
        from IPython.display import display  # type: ignore[import-not-found]
    except ImportError:
        return print
    handle = None

    def show(live: LiveRows) -> None:
        nonlocal handle
        handle = display(live, display_id=True) if handle is None else handle.update(live) or handle

    return show
