"""`headrace settings`: show the settings and their origins."""

from __future__ import annotations

from typing import Any

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.secrets import MASK
from headrace.settings import ResolvedSetting

app = typer.Typer()


@app.command()
def settings(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Show every setting, its value and its origin.

    To change spark.master, write `master = "local[4]"` in section `[spark]` of headrace.toml, or set the environment
    variable HEADRACE_SPARK_MASTER.

    Example: headrace settings --json
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    rows = [_row(origin) for origin in call.origins()]
    output.print_rows(rows, as_json=call.json, columns=("name", "value", "origin", "doc"), empty="")


def _row(origin: ResolvedSetting) -> dict[str, Any]:
    value = MASK if origin.secret and origin.value else origin.value
    return {"name": origin.name, "value": value, "origin": origin.origin, "doc": origin.doc}
