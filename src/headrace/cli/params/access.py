"""Parameters of the access commands: the user store of the log, opened directly by the owner of the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.access.principal import LOCAL
from headrace.cli.context import CommandContext
from headrace.errors import BadCommandLine
from headrace.settings import declared_settings, parse_value
from headrace.settings.sections import find_setting

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


def parse_quota(text: str) -> tuple[str, int]:
    """A quota of one user, like `requests_per_second=50`."""
    name, _, value = text.partition("=")
    spec = find_setting(f"quota.{name}")
    names = [spec.name for spec in declared_settings() if spec.section == "quota"]
    if spec is None:
        raise BadCommandLine(f'there is no quota "{name[:80]}"', fix=f"quotas are: {', '.join(names)}")
    try:
        number = int(parse_value(spec.type, value))
    except ValueError as error:
        raise BadCommandLine(f'quota {name} cannot be "{value[:80]}": {error}', fix=spec.doc) from None
    if number < 0:
        raise BadCommandLine(f"quota {name} cannot be negative", fix="0 is no limit")
    return name, number


def prompt_password() -> str:
    """Read a password: prompted for twice at a terminal, otherwise the first line of standard input."""
    if sys.stdin.isatty():
        return typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return sys.stdin.readline().rstrip("\n")
