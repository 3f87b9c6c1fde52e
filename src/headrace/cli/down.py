"""`headrace down`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call, check_folder
from headrace.cli.options import duration


def down(
    ctx: typer.Context,
    timeout: Annotated[timedelta, duration("How long to wait for its end.")] = timedelta(minutes=2),
    as_json: output.Json = False,
) -> None:
    """End the server of this data folder, and wait until it has ended.

    Requests and batches under way end first. Exit code 75 if it takes longer than the time-out.

    Example: headrace down --timeout 1m
    """
    from headrace.control import presence

    call: Call = ctx.obj
    call.json |= as_json
    data = call.settings().data
    check_folder(data)
    there, seconds = presence.end(data, timeout.total_seconds())
    if call.json:
        output.print_json({"pid": there.pid, "seconds": round(seconds, 3)})
    else:
        typer.echo(f"the server (process {there.pid}) has ended, after {seconds:.1f} s")
