"""`headrace deploy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call
from headrace.cli.servers import Server, TokenFile, client_of
from headrace.lang.ksql.files import read_script

File = Annotated[Path, typer.Argument(metavar="FILE.py", help="The file.", exists=True, dir_okay=False)]


def deploy(
    ctx: typer.Context,
    file: File,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: output.Json = False,
) -> None:
    """Send the app of a Python file to a server: its functions, its operators and its statements.

    Sent again, it replaces its code, also for queries that run, and does only those statements that are new. A server
    takes code from programs on its own machine, unless its setting `code_from` says otherwise.

    Example: headrace deploy shop.py
    """
    call: Call = ctx.obj
    call.json |= as_json
    told = client_of(call, server, token_file).deploy(read_script(file), file.name)
    if call.json:
        output.print_json(told)
        return
    output.note(f"app {told['name']}: {', '.join(told['declares']) or 'declares nothing'}")
    for one in told["done"]:
        print(" ".join(one["text"].split()))
    if not told["done"]:
        output.note("all of its statements were done before")
