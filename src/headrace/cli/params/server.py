"""Selects the server that a command talks to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.client import DEFAULT_ADDRESS, Client
from headrace.errors import BadSetting
from headrace.secrets import resolve_secrets

Server = Annotated[
    str | None,
    typer.Option(
        help=f"Server address. Default: the server of this data folder, or {DEFAULT_ADDRESS}.",
        show_default=False,
    ),
]


TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the access token. Default: the settings token_file and token.", exists=True, show_default=False
    ),
]


def resolve_token(call: CommandContext, address: str, file: Path | None = None) -> str | None:
    """The token to authenticate with at an address; the server of this data folder accepts the folder's secret."""
    from headrace.control.admin.discovery import local_token

    settings = call.settings()
    token_file = file or (Path(settings.client.token_file) if settings.client.token_file else None)
    try:
        if token_file is not None:
            return token_file.read_text().strip() or None
        token = resolve_secrets(settings.client.token, settings.storage.data).reveal()
        return token or local_token(settings.storage.data, address)
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"cannot read the token: {error}", where=str(token_file), fix="name another file") from error


def connect(call: CommandContext, server: str | None, token_file: Path | None = None) -> Client:
    """A client of the named server, else of this data folder's server, else of the default address."""
    from headrace.control.admin.discovery import find_server

    settings = call.settings()
    if server is None and (running := find_server(settings.storage.data)) is not None:
        server = running.required_address
    server = server or DEFAULT_ADDRESS
    return Client(server, token=resolve_token(call, server, token_file), ca=settings.client.ca_cert or None)
