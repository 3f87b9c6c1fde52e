"""`headrace sql`: the KSQL shell."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.server import Server, TokenFile, connect
from headrace.client import Client
from headrace.errors import BadScript
from headrace.lang.script_files import read_script

Form = Annotated[Literal["table", "json", "csv", "csv-exact"], typer.Option("--output", help="Output format.")]
Script = Annotated[Path | None, typer.Option(help="Script to run.", exists=True, dir_okay=False, show_default=False)]


def sql(
    ctx: typer.Context,
    server: Server = None,
    token_file: TokenFile = None,
    execute: Annotated[
        list[str] | None, typer.Option(help="Statements to run. Repeatable.", show_default=False)
    ] = None,
    file: Script = None,
    form: Form = "table",
) -> None:
    """Open the KSQL shell, or run statements on a server.

    Statements come from the prompt, a file, an option or a pipe, and end with a semicolon. In the shell, type `help`
    for help and `exit` to leave; Ctrl-C stops a running query. With --file and --execute, the file runs first, and
    the first error stops.

    Example: headrace sql --execute "LIST STREAMS;" --output json
    """
    from headrace.cli.shell.meta_commands import ExitShell
    from headrace.cli.shell.session import Session

    call: CommandContext = ctx.obj
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a value may contain an unpaired surrogate
    output_format = "json" if call.json else form
    call.json = output_format == "json"
    texts = [(read_script(file), str(file))] if file else []
    texts += [(text, None) for text in execute or ()]
    client = connect(call, server, token_file)
    if not texts and sys.stdin.isatty() and sys.stdout.isatty():
        _open_prompt(client, output_format)
        return
    session = Session(client, output_format)
    try:
        for text, name in texts or [(_standard_input(), None)]:
            session.run(text, name)
    except ExitShell:
        return


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise BadScript("standard input is not UTF-8 text", fix="encode it as UTF-8") from error


def _open_prompt(client: Client, form: str) -> None:
    from headrace.cli.shell.prompt import run_prompt
    from headrace.cli.shell.session import Session

    version = client.info().get("version")  # an unreachable server is reported before the prompt appears
    output.note(f"headrace {version} at {client.address}; type help for help, exit to leave")
    run_prompt(Session(client, form, interactive=True))
