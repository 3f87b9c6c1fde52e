"""`headrace secret`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace import secrets
from headrace.cli import output
from headrace.cli.call import Call, check_folder

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Letters, digits, _ and -.")]


@app.command("set")
def set_secret(ctx: typer.Context, name: Name) -> None:
    """Keep a secret, to which settings and statements refer as ${secret:NAME}. It is typed, or piped in.

    It is a file of the data folder that only its owner can read, and in no backup and no support bundle.

    Example: headrace secret set kafka
    """
    call: Call = ctx.obj
    typed = typer.prompt("secret", hide_input=True) if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
    secrets.keep(name, typed, call.settings().data)
    output.note(f"{name} is kept: write ${{secret:{name}}}")


@app.command("list")
def list_secrets(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the names of the secrets that are kept.

    Example: headrace secret list
    """
    call: Call = ctx.obj
    call.json |= as_json
    rows = [{"name": name} for name in secrets.kept(call.settings().data)]
    output.listing(rows, as_json=call.json, columns=("name",), empty="no secrets are kept")


@app.command()
def remove(ctx: typer.Context, name: Name) -> None:
    """Forget a secret.

    Example: headrace secret remove kafka
    """
    call: Call = ctx.obj
    check_folder(call.settings().data)
    secrets.forget(name, call.settings().data)
    output.note(f"{name} is removed")
