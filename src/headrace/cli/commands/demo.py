"""`headrace demo`: run the whole system on generated data, within a minute."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from headrace.cli.context import CommandContext


def demo(
    ctx: typer.Context,
    seconds: Annotated[float | None, typer.Option(help="Stop after this long; without it, on Ctrl-C.")] = None,
    plain: Annotated[bool, typer.Option(help="Print one table at the end instead of a moving one.")] = False,
    rate: Annotated[int, typer.Option(help="Clicks generated per second.")] = 5_000,
) -> None:
    """Run the whole system on a generated click stream: a server, statements, Spark, and a table that updates live.

    The command prints what to try meanwhile in another terminal. All data is in a temporary folder, which is removed at
    the end. `headrace init` creates the same project in a folder that stays.

    Example: headrace demo --seconds 30
    """
    from headrace.demo import run

    call: CommandContext = ctx.obj
    console = Console()
    scene = run(console, call.settings(), seconds=seconds, plain=plain or not console.is_terminal, rate=rate)
    console.print(f"[dim]{scene.total:,} clicks counted; every one of them exactly once.[/]")
    console.print("Next: [bold]headrace init clicks[/] makes a folder with all of this, to keep and to change.")
