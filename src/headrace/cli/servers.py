"""Which server a command talks to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.call import Call
from headrace.client import ADDRESS, Client
from headrace.errors import BadSetting
from headrace.secrets import resolve

Server = Annotated[
    str | None,
    typer.Option(
        help=f"The server's address; else that of the server on this data folder, or {ADDRESS}.", show_default=False
    ),
]


TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with the token to show; else that of the settings.", exists=True, show_default=False),
]


def token_of(call: Call, file: Path | None = None) -> str | None:
    """What to show to a server, if there is anything."""
    settings = call.settings()
    chosen = file or (Path(settings.token_file) if settings.token_file else None)
    try:
        if chosen is not None:
            return chosen.read_text().strip() or None
        return resolve(settings.token, settings.data).reveal() or None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"the token cannot be read: {error}", where=str(chosen), fix="name another file") from error


def client_of(call: Call, server: str | None, token_file: Path | None = None) -> Client:
    """Of the server that is named, or serves this data folder, or listens where one does."""
    from headrace.control.presence import present

    if server is None and (there := present(call.settings().data)) is not None:
        server = there.reached_at
    return Client(server or ADDRESS, token=token_of(call, token_file), ca=call.settings().ca or None)
