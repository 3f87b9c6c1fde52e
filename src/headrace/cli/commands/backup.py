"""`headrace backup`: copy a data folder while it is in use."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace import logfile
from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.log.embedded.maintenance.backup import BackupSummary
from headrace.log.embedded.maintenance.backup import backup as back_up
from headrace.settings import size_text

app = typer.Typer()


@app.command()
def backup(
    ctx: typer.Context,
    dest: Annotated[Path, typer.Argument(help="Destination folder. It must be empty or not exist.")],
    as_json: output.Json = False,
) -> None:
    """Copy a data folder while it is in use.

    The backup contains topics, rows, consumer groups and writers, all as of one moment, and the state of queries as of
    their last batch at that moment. It is itself a data folder. On the same filesystem it shares the row files, which
    are immutable, so it is quick and needs little space. To survive a disk failure, copy to a folder on another disk.

    Example: headrace backup /mnt/other-disk/headrace-monday
    """
    call: CommandContext = ctx.obj
    from headrace.engine.io.checkpoint_copy import copy_checkpoints

    call.json |= as_json
    folder = call.folder()
    logfile.configure(call.settings())
    with output.progress() as bar:
        task = bar.add_task("copying", total=None)
        copied = back_up(
            folder, dest, lambda done, total: bar.update(task, completed=done, total=total), copy_checkpoints
        )
    report(call, copied, f"backup of {folder} is in {dest}")


def report(call: CommandContext, copied: BackupSummary, done: str, **more: Any) -> None:
    """Print a summary of what was copied; `more` is part of its JSON only."""
    if call.json:
        output.print_json({**dataclasses.asdict(copied), **more})
    else:
        output.note(f"{done}: {copied.rows:,} rows, {copied.files:,} files, {size_text(copied.bytes)}")
