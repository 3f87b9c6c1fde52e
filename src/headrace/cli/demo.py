"""`headrace demo`: see the data move, within a minute."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from headrace.cli.call import Call


def demo(
    ctx: typer.Context,
    seconds: Annotated[float | None, typer.Option(help="Stop after this long; without it, on Ctrl-C.")] = None,
    plain: Annotated[bool, typer.Option(help="Print one table at the end instead of a moving one.")] = False,
    rate: Annotated[int, typer.Option(help="Clicks generated per second.")] = 5_000,
) -> None:
    """A generated click stream goes into an embedded log, Spark counts it per page and minute, a table moves.

    Everything lives in a temporary folder that is removed at the end.

    Example: headrace demo --seconds 30
    """
    from headrace.demo import run

    call: Call = ctx.obj
    console = Console()
    scene = run(console, call.settings(), seconds=seconds, plain=plain or not console.is_terminal, rate=rate)
    total = sum(views for views, _ in scene.counts.values())
    console.print(f"[dim]{total:,} clicks counted; every one of them exactly once.[/]")
    console.print("Next: [bold]headrace topic create events[/], then [bold]headrace produce events[/] and type.")
