"""`headrace restore`: create a data folder from a backup."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.commands.backup import report
from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.errors import NotOnThisLog
from headrace.log.embedded.maintenance.backup import restore as restore_to

app = typer.Typer()


@app.command()
def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="Folder written by `headrace backup`.")],
    data: Annotated[Path | None, typer.Option(help="New data folder. It must be empty or not exist.")] = None,
    as_json: output.Json = False,
) -> None:
    """Create a data folder from a backup.

    Every row is verified. Queries resume where the log ends. If the state of a query could not be copied, because it
    went on too fast, the query waits for a decision: the command lists these, and what lets each of them continue.

    Example: headrace restore /mnt/backup/monday --data /srv/headrace
    """
    call: CommandContext = ctx.obj
    from headrace.control.queries.recoverable import undecided_queries
    from headrace.engine.io.checkpoint_copy import copy_checkpoints
    from headrace.log.embedded import EmbeddedLog

    call.json |= as_json
    settings = call.settings()
    if settings.storage.log != "embedded":
        raise NotOnThisLog("only an embedded log can be restored", fix="use Kafka's own tools, or --log embedded")
    folder = data or settings.storage.data
    with output.progress() as bar:
        task = bar.add_task("restoring", total=None)
        copied = restore_to(
            source, folder, lambda done, total: bar.update(task, completed=done, total=total), copy_checkpoints
        )
    with EmbeddedLog(folder, settings.replace(storage_data=folder)) as log:
        undecided = [dataclasses.asdict(one) for one in undecided_queries(log, folder)]
    report(call, copied, f"restored {folder}", undecided=undecided)
    if undecided and not call.json:
        output.note("queries that wait for a decision, before or after the server starts:")
        output.print_rows(undecided, as_json=False, columns=("query", "topic", "decision"), empty="")
