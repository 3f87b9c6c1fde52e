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
    timeout: Annotated[timedelta, duration_option("How long to wait before ending it by force.")] = timedelta(
        minutes=2
    ),
    as_json: output.Json = False,
) -> None:
    """Stop the server of this data folder, and wait for it.

    Requests and batches in progress finish first. What has not finished at the timeout is ended by force: acknowledged
    records are not lost, and batches are repeated when the server starts again.

    Example: headrace down --timeout 1m
    """
    from headrace.control.admin import discovery

    call: CommandContext = ctx.obj
    call.json |= as_json
    data = call.settings().storage.data
    require_data_folder(data)
    stopped = discovery.stop_server(data, timeout.total_seconds())
    if call.json:
        output.print_json({"pid": stopped.pid, "seconds": round(stopped.seconds, 3), "forced": stopped.forced})
    else:
        how = "was ended by force" if stopped.forced else "stopped"
        typer.echo(f"server {how} after {stopped.seconds:.1f} s (process {stopped.pid})")
