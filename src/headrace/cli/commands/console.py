"""`headrace console`: print a link that logs a browser in."""

from __future__ import annotations

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.server import Server, TokenFile, connect


def console(
    ctx: typer.Context, server: Server = None, token_file: TokenFile = None, as_json: output.Json = False
) -> None:
    """Print a link that opens the console and logs a browser in.

    It can be used once, within 10 minutes. It logs in the operator of the data folder or, with a token, its user,
    who must be an admin.

    Example: headrace console
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    link = connect(call, server, token_file).login_link()
    if call.json:
        output.print_json({"link": link})
    else:
        print(link)
