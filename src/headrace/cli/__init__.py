"""The command line: one module per command, imported when the command is called.

`main` is the entry point. Global options come before the command. A headrace error is printed once, with its code,
location and fix; its traceback only if the environment variable HEADRACE_TRACEBACK is set. Exit codes: 1 the request
failed, 2 the command line is wrong, 75 try again later, 130 interrupted, 141 the reader of the output has closed it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace import __version__
from headrace.cli.context import CommandContext
from headrace.cli.root import Root

app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A streaming platform on Apache Spark.\n\nStart here: headrace demo",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", readable=False, help="Data folder. Default: headrace-data.", show_default=False),
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="embedded|kafka", help="Where topics are stored.", show_default=False)
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="Kafka bootstrap servers, with --log kafka.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Settings file. Default: headrace.toml, if it exists.", show_default=False),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print results and errors as JSON.")] = False,
) -> None:
    flags = {"storage_data": data, "storage_log": log, "kafka_bootstrap_servers": servers}
    ctx.obj = CommandContext(flags, config, json)


def main() -> None:
    """Entry point of the program `headrace`."""
    app(prog_name="headrace")
