"""The command line: one module per command, imported when the command is called.

`main` is the entry point. Global options come before the command. A headrace error is printed once, with its code,
location and fix, never as a traceback. Exit codes: 1 the request failed, 2 the command line is wrong, 75 try again
later, 130 interrupted, 141 the reader of the output has closed it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.root import Root

app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="headrace: a streaming platform on Apache Spark.\n\nExample: headrace topic create clicks --partitions 4",
)


@app.callback()
def options(
    ctx: typer.Context,
    data: Annotated[Path | None, typer.Option(help="The data folder.", show_default=False)] = None,
    log: Annotated[str | None, typer.Option(help="Which log: embedded or kafka.", show_default=False)] = None,
    servers: Annotated[str | None, typer.Option(help="Kafka's bootstrap servers.", show_default=False)] = None,
    config: Annotated[Path | None, typer.Option(help="The settings file.", show_default=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="Listings and errors as JSON.")] = False,
) -> None:
    flags = {"storage_data": data, "storage_log": log, "kafka_bootstrap_servers": servers}
    ctx.obj = CommandContext(flags, config, json)


def main() -> None:
    """Entry point of the program `headrace`."""
    app(prog_name="headrace")
