"""What the commands about access share: the book of the log, for whoever owns the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.access.who import LOCAL
from headrace.cli.call import Call

if TYPE_CHECKING:
    from headrace.access.book import Book

BY = LOCAL.name
Role = Annotated[list[str] | None, typer.Option("--role", help="A role; may be given several times.")]


@contextmanager
def book_of(call: Call, *, create: bool = False) -> Iterator[Book]:
    """A server that runs sees within a second what is changed here."""
    from headrace.access.audit import Audit
    from headrace.access.book import Book
    from headrace.clock import SystemClock

    with call.log(create=create) as log:
        clock = SystemClock()
        yield Book(log, clock, Audit(log, clock))


def password() -> str:
    """Asked for at a terminal, twice; else the first line of standard input."""
    if sys.stdin.isatty():
        return typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return sys.stdin.readline().rstrip("\n")
