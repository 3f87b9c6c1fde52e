"""`headrace backup`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from headrace import logfile
from headrace.cli import output
from headrace.cli.call import Call
from headrace.log.embedded.backup import Copied
from headrace.log.embedded.backup import backup as back_up
from headrace.settings import size_text

app = typer.Typer()


@app.command()
def backup(
    ctx: typer.Context,
    dest: Annotated[Path, typer.Argument(help="The new folder; it must not exist, or be empty.")],
    as_json: output.Json = False,
) -> None:
    """Copy a data folder while it is in use: topics, rows, groups and writers, as of one moment.

    The copy is itself a data folder. On the same filesystem it shares the files of rows, which never change, so it is
    quick and takes little space; to be safe from a broken disk, name a folder on another one.

    Example: headrace backup /mnt/other-disk/headrace-monday
    """
    call: Call = ctx.obj
    call.json |= as_json
    folder = call.folder()
    logfile.configure(call.settings())
    with output.progress() as bar:
        task = bar.add_task("copying", total=None)
        copied = back_up(folder, dest, lambda done, total: bar.update(task, completed=done, total=total))
    report(call, copied, f"backup of {folder} is in {dest}")


def report(call: Call, copied: Copied, done: str) -> None:
    """Say what was copied."""
    if call.json:
        output.print_json(dataclasses.asdict(copied))
    else:
        output.note(f"{done}: {copied.rows:,} rows, {copied.files:,} files, {size_text(copied.bytes)}")
