"""`headrace secret`: store, list and remove secrets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace import secrets
from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the secret: letters, digits, _ and -.")]


@app.command("set")
def set_secret(ctx: typer.Context, name: Name) -> None:
    """Store a secret. Type its value, or pipe it in.

    Settings and statements refer to it as ${secret:NAME}. The secret is a file in the data folder that
    only its owner can read. Backups and support bundles do not contain it.

    Example: headrace secret set kafka
    """
    call: CommandContext = ctx.obj
    typed = typer.prompt("secret", hide_input=True) if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
    secrets.save_secret(name, typed, call.settings().storage.data)
    output.note(f"stored secret {name}; refer to it as ${{secret:{name}}}")


@app.command("list")
def list_secrets(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the names of the stored secrets.

    Example: headrace secret list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    rows = [{"name": name} for name in secrets.secret_names(call.settings().storage.data)]
    output.print_rows(rows, as_json=call.json, columns=("name",), empty="there are no secrets")


@app.command()
def remove(ctx: typer.Context, name: Name) -> None:
    """Remove a secret.

    Example: headrace secret remove kafka
    """
    call: CommandContext = ctx.obj
    require_data_folder(call.settings().storage.data)
    secrets.delete_secret(name, call.settings().storage.data)
    output.note(f"removed secret {name}")
