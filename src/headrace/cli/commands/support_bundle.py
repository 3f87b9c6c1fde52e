"""`headrace support-bundle`: collect diagnostics in one file."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output


def support_bundle(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE.zip", help="File to write.", show_default=False)] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of log lines to include.")] = 2000,
) -> None:
    """Collect diagnostics in one file, without records.

    The file contains versions, settings, queries, logs, and disk and memory use. It contains no records and no secrets:
    secret settings are masked, and their values are removed from everything else. It does contain statements and names.
    The command works whether a server runs or not.

    Example: headrace support-bundle problem.zip
    """
    from headrace.cli.commands.bundle_contents import collect_bundle
    from headrace.log.embedded.storage.store import translate_errors

    call: CommandContext = ctx.obj
    require_data_folder(call.settings().storage.data)
    path = file or Path(time.strftime("headrace-support-%Y%m%d-%H%M%S.zip", time.gmtime()))
    if path.exists():
        raise typer.BadParameter(f"{path} already exists")
    part_sizes: dict[str, int] = {}
    with translate_errors(path.parent), zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in collect_bundle(call, lines):
            bundle.writestr(name, text)
            part_sizes[name] = len(text.encode())
    if call.json:
        output.print_json({"file": str(path), "parts": part_sizes})
    else:
        typer.echo(f"{path}: {', '.join(part_sizes)}")
