"""`headrace storage`: compact, check and measure the embedded log."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.errors import LogBusy
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance import repair
from headrace.log.embedded.maintenance.check import check
from headrace.log.embedded.maintenance.stats import stats
from headrace.log.embedded.maintenance.tasks import MaintenanceReport

app = typer.Typer(no_args_is_help=True)
_PAUSE = 0.1


@app.command()
def compact(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="Compact only this topic.")] = None,
    as_json: output.Json = False,
) -> None:
    """Run retention, compaction and merging now.

    The server also does this in the background. Here compaction runs even if it is not due.

    Example: headrace storage compact customers
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.embedded(long=True) as log:
        topics = [log.topic(topic).name] if topic else None
        done = dataclasses.asdict(_run(log, topics))
    if call.json:
        output.print_json(done)
    else:
        output.stdout_console().print(output.details(done))


@app.command("check")
def check_log(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Verify the checksum and contents of every extent.

    The exit code is 1 if something is damaged. The log may be in use meanwhile. Files left behind by a killed process
    are listed, but are not damage.

    Example: headrace storage check
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    folder = call.folder()
    with output.progress() as bar:
        task = bar.add_task("checking", total=None)
        result = check(folder, lambda done, total: bar.update(task, completed=done, total=total))
    if call.json:
        output.print_json(dataclasses.asdict(result))
    else:
        rows = [dataclasses.asdict(finding) for finding in result.findings]
        if rows:
            output.print_rows(rows, as_json=False, columns=("kind", "what", "where", "damage"), empty="")
        output.stdout_console().print(
            f"{result.extents:,} extents with {result.rows:,} rows: "
            + (f"[bold red]{len(result.damage)} damaged[/]" if result.damage else "[green]no damage[/]")
        )
    if result.damage:
        raise typer.Exit(1)


@app.command("repair")
def repair_log(
    ctx: typer.Context,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Let readers go on after lost rows, instead of stopping there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Repair a damaged data folder as far as that is safe.

    Damaged rows are moved to the folder `damaged` in the data folder, never deleted. Readers that reach them stop
    (records-lost), or go on with --skip-lost. A database with damaged indexes is rebuilt. The exit code is 1 if
    something is still damaged. No other process may use the data folder.

    Example: headrace storage repair --yes
    """
    call: CommandContext = ctx.obj
    folder = call.folder()
    with repair.exclusive(folder):
        steps = repair.plan(folder, check(folder).findings, skip_lost=skip_lost)
        if not steps:
            output.note("no damage")
            return
        output.print_rows(
            [dataclasses.asdict(step) for step in steps], as_json=False, columns=("what", "where"), empty=""
        )
        if not yes:
            typer.confirm("Repair the data folder?", abort=True, err=True)
        left = repair.repair(folder, skip_lost=skip_lost)
    output.note(f"repaired {folder}; {len(left)} damaged" if left else f"repaired {folder}")
    if left:
        raise typer.Exit(1)


@app.command("stats")
def log_stats(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Show the size of the log, and pending maintenance.

    Example: headrace storage stats --json
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.embedded() as log:
        log_size = dataclasses.asdict(stats(log))
    if call.json:
        output.print_json(log_size)
    else:
        output.stdout_console().print(output.details(log_size))


def _run(log: EmbeddedLog, topics: list[str] | None) -> MaintenanceReport:
    """Run one round of maintenance; waits while another process runs one."""
    deadline = time.monotonic() + log.settings.storage.lock_timeout.total_seconds()
    while time.monotonic() < deadline:
        report = log.maintenance.run(force_compaction=True, topics=topics)
        if report is not None:
            return report
        time.sleep(_PAUSE)
    raise LogBusy("another process is compacting the log", where=str(log.folder), fix="try again when it is done")
