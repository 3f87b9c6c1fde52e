"""`headrace deploy`: deploy a Python app to a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.io.control_characters import escape_controls
from headrace.cli.params.server import Server, TokenFile, connect
from headrace.lang.script_files import read_script

File = Annotated[
    Path, typer.Argument(metavar="FILE.py", help="Python file that defines the app.", exists=True, dir_okay=False)
]


def deploy(
    ctx: typer.Context,
    file: File,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: output.Json = False,
) -> None:
    """Deploy a Python app to a server: its functions, operators and statements.

    Deploying again replaces the code, also for running queries, and executes only the statements that are new. A server
    accepts code only from an admin, or with the secret of its data folder, which this command sends by itself.

    Example: headrace deploy shop.py
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    result = connect(call, server, token_file).deploy(read_script(file), file.name)
    if call.json:
        output.print_json(result)
        return
    output.note(f"app {result['name']}: {', '.join(result['declares']) or 'no functions or operators'}")
    for one in result["done"]:
        print(escape_controls(" ".join(one["text"].split())))
    if not result["done"]:
        output.note("nothing new: all statements were executed before")
