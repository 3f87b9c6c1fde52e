"""`headrace down`: stop the server."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output
from headrace.cli.params.values import duration_option


def down(
    ctx: typer.Context,
    timeout: Annotated[timedelta, duration_option("How long to wait.")] = timedelta(minutes=2),
    as_json: output.Json = False,
) -> None:
    """Stop the server of this data folder, and wait for it.

    Requests and batches in progress finish first. The exit code is 75 if this takes longer than the timeout.

    Example: headrace down --timeout 1m
    """
    from headrace.control.admin import discovery

    call: CommandContext = ctx.obj
    call.json |= as_json
    data = call.settings().storage.data
    require_data_folder(data)
    server, seconds = discovery.stop_server(data, timeout.total_seconds())
    if call.json:
        output.print_json({"pid": server.pid, "seconds": round(seconds, 3)})
    else:
        typer.echo(f"server stopped after {seconds:.1f} s (process {server.pid})")
