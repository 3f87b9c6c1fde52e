"""`headrace settings`."""

from __future__ import annotations

from typing import Any

import typer

from headrace.cli import output
from headrace.cli.call import Call
from headrace.secrets import MASK
from headrace.settings import Origin

app = typer.Typer()


@app.command()
def settings(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Every setting with its value and where it comes from. Secrets are masked.

    A setting is a line in headrace.toml, or HEADRACE_ and its name in capitals in the environment.

    Example: headrace settings --json
    """
    call: Call = ctx.obj
    call.json |= as_json
    rows = [_row(origin) for origin in call.origins()]
    output.listing(rows, as_json=call.json, columns=("name", "value", "origin", "doc"), empty="")


def _row(origin: Origin) -> dict[str, Any]:
    value = MASK if origin.secret and origin.value else origin.value
    return {"name": origin.name, "value": value, "origin": origin.origin, "doc": origin.doc}
