"""Parameters of the access commands: the user store of the log, opened directly by the owner of the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.access.principal import LOCAL
from headrace.cli.context import CommandContext

if TYPE_CHECKING:
    from headrace.access.users import UserStore

LOCAL_PRINCIPAL = LOCAL.name
Role = Annotated[list[str] | None, typer.Option("--role", help="Role. Repeatable.")]


@contextmanager
def open_users(call: CommandContext, *, create: bool = False) -> Iterator[UserStore]:
    """Open the user store. A running server sees changes within a second."""
    from headrace.access.audit import Audit
    from headrace.access.users import UserStore
    from headrace.clock import SystemClock

    with call.log(create=create) as log:
        clock = SystemClock()
        yield UserStore(log, clock, Audit(log, clock))


def prompt_password() -> str:
    """Read a password: prompted for twice at a terminal, otherwise the first line of standard input."""
    if sys.stdin.isatty():
        return typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return sys.stdin.readline().rstrip("\n")
