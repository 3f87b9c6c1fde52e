"""`headrace demo`: run the whole system on generated data, within a minute."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.program_command import program_command


def demo(
    ctx: typer.Context,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after this many seconds. Default: on Ctrl-C.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live table.")] = False,
    rate: Annotated[int, typer.Option(min=10, max=200_000, help="Clicks per second.")] = 5_000,
) -> None:
    """Try headrace: a live click stream, counted by Spark.

    It prints what to try meanwhile in another terminal. All data is in a temporary folder, which is removed at
    the end. `headrace init` creates the same project in a folder that stays.

    Example: headrace demo --seconds 30
    """
    from headrace.demo import run

    call: CommandContext = ctx.obj
    console = Console()
    plain = plain or not console.is_terminal
    run(console, call.settings(), seconds=seconds, plain=plain, rate=rate, program=program_command())
    output.note(f"Next: {program_command('init', 'clicks')} creates a project like this one, to keep.")
