"""Which server a command talks to."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.call import Call
from headrace.client import ADDRESS, Client

Server = Annotated[
    str | None,
    typer.Option(
        help=f"The server's address; else that of the server on this data folder, or {ADDRESS}.", show_default=False
    ),
]


def client_of(call: Call, server: str | None) -> Client:
    """Of the server that is named, or serves this data folder, or listens where one does."""
    from headrace.control.presence import present

    if server is None and (there := present(call.settings().data)) is not None:
        server = there.reached_at
    return Client(server or ADDRESS)
