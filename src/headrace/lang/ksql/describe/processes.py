"""SHOW PROCESSES: from the processes to JSON, and from the JSON to the table that is displayed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.lang.contract import ProcessStatus
from headrace.lang.ksql.describe.descriptions import single_line
from headrace.lang.listing import Column, Document, Listing, Table

_MAX_TEXT = 60
"""Characters of a statement that are displayed."""
_COLUMNS = (
    Column("id", "ID"),
    Column("user", "User"),
    Column("kind", "Kind"),
    Column("state", "Status"),
    Column("", "Seconds"),
    Column("", "CPU"),
    Column("", "Memory"),
    Column("", "Statement"),
    *map(Column, ("seconds", "cpuSeconds", "memory", "rows", "bytes", "queryString")),
)
_NOTES = ("To end a query run: KILL <ID>;",)


def describe_processes(processes: Iterable[ProcessStatus]) -> Listing:
    return processes_listing(map(_document, processes))


def processes_listing(documents: Iterable[Document]) -> Listing:
    """The listing of processes as they are in JSON."""
    return Listing("processes", tables=(Table("processes", _COLUMNS, tuple(map(_row, documents))),), notes=_NOTES)


def _document(process: ProcessStatus) -> Document:
    return {
        "id": process.id,
        "user": process.principal,
        "kind": process.kind.upper(),
        "state": process.state.upper(),
        "seconds": process.seconds,
        "cpuSeconds": process.cpu_seconds,
        "memory": process.memory,
        "rows": process.rows,
        "bytes": process.bytes,
        "queryString": process.text,
    }


def _row(process: Document) -> tuple[Any, ...]:
    displayed = {
        "Seconds": f"{process['seconds']:.1f}",
        "CPU": "" if process["cpuSeconds"] is None else f"{process['cpuSeconds']:.1f} s",
        "Memory": "" if process["memory"] is None else f"{process['memory'] >> 20} MB",
        "Statement": _shortened(single_line(process["queryString"])),
    }
    return tuple(process[column.name] if column.name else displayed[column.heading] for column in _COLUMNS)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
