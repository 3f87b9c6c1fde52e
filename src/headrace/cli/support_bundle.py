"""`headrace support-bundle`."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call, check_folder


def support_bundle(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE.zip", help="Where it goes.", show_default=False)] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines of the log.")] = 2000,
) -> None:
    """Gather what somebody who helps must know into one file: versions, settings, queries, logs, disk and memory.

    It has no records and no secrets: settings that are secret are masked, and their values are taken out of everything
    else. Statements and the names of things are in it. It works whether a server runs or not.

    Example: headrace support-bundle problem.zip
    """
    from headrace.cli.gathering import gathered
    from headrace.log.embedded.store import translated

    call: Call = ctx.obj
    check_folder(call.settings().data)
    path = file or Path(time.strftime("headrace-support-%Y%m%d-%H%M%S.zip", time.gmtime()))
    if path.exists():
        raise typer.BadParameter(f"{path} is there already")
    written: dict[str, int] = {}
    with translated(path.parent), zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in gathered(call, lines):
            bundle.writestr(name, text)
            written[name] = len(text.encode())
    if call.json:
        output.print_json({"file": str(path), "parts": written})
    else:
        typer.echo(f"{path}: {', '.join(written)}")
