"""The table of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from headrace.cli.help_format import format_plainly

_AS_JSON = "headrace.as_json"
TRACEBACK_VARIABLE = "HEADRACE_TRACEBACK"
"""If this environment variable is set, errors appear with their traceback."""

# Each command with its line in `headrace --help`. The texts are here so that the help does not import the commands,
# which are in the modules `headrace.cli.commands.NAME`, with underscores for dashes.
COMMANDS: Mapping[str, str] = {
    "demo": "Try headrace: a live click stream, counted by Spark.",
    "init": "Create a project folder with an example.",
    "check": "Check a KSQL script without running it.",
    "explain": "Show what a KSQL script does, with its query plans.",
    "run": "Run a KSQL script or a Python app on Spark.",
    "up": "Start the server.",
    "console": "Print a link that logs a browser in to the console.",
    "deploy": "Deploy a Python app to a server.",
    "sql": "Open the KSQL shell, or run statements on a server.",
    "down": "Stop the server.",
    "status": "Show the state of the server and its queries.",
    "logs": "Show the server's log.",
    "verify": "Recompute a query's results and compare them.",
    "support-bundle": "Collect diagnostics in one file, without records.",
    "test": "Test a KSQL script in memory.",
    "topic": "Create, list, describe, alter and delete topics.",
    "produce": "Append lines of a file or of a pipe to a topic.",
    "consume": "Print the rows of topics.",
    "queue": "Take messages of a topic, and acknowledge them.",
    "group": "List, describe, reset and delete consumer groups.",
    "schema": "Register, check, list and serve schemas.",
    "state": "Show and remove the state of queries.",
    "storage": "Check, compact and measure the embedded log.",
    "backup": "Copy a data folder while it is in use.",
    "restore": "Create a data folder from a backup.",
    "kafka": "Run Kafka brokers on this machine, for development.",
    "user": "Add, list, change and remove users.",
    "role": "Grant and revoke privileges of roles.",
    "token": "Create and revoke access tokens.",
    "audit": "Show and verify the audit log.",
    "settings": "Show every setting, its value and its origin.",
    "secret": "Store, list and remove secrets.",
    "doctor": "Check that this machine has what headrace needs.",
    "version": "Print the version.",
}

_COMPLETION_OPTIONS = ("install_completion", "show_completion")  # typer adds them to every app


def load(name: str) -> Any:
    """Load a command with its options: the `app` of its module, or the module's function of that name."""
    own = name.replace("-", "_")
    module = importlib.import_module(f"headrace.cli.commands.{own}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer()
        app.command()(getattr(module, own))
    command = get_command(app)
    command.params = [p for p in command.params if p.name not in _COMPLETION_OPTIONS]
    command.name = name
    command.help = command.help or COMMANDS[name]
    format_plainly(command)
    return command


class Root(TyperGroup):
    """Loads commands lazily, and reports errors."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(name=cmd_name, help=COMMANDS[cmd_name]) if self._listing else load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(self.list_commands(ctx))  # typer searches this for similar names
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        as_json = "--json" in args  # it may follow the command, whose options are parsed later
        with _reported_errors(lambda: as_json):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[_AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: Any) -> Any:
        with _reported_errors(lambda: ctx.meta[_AS_JSON] or bool(ctx.obj and ctx.obj.json)):
            return super().invoke(ctx)


@contextmanager
def _reported_errors(as_json: Callable[[], bool]) -> Iterator[None]:
    """Print an error of the block and exit with its code."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:
        from headrace.cli.io import error_output
        from headrace.cli.io.usage_errors import is_help

        if is_help(error) if isinstance(error, TyperException) else os.environ.get(TRACEBACK_VARIABLE):
            raise
        raise typer.Exit(error_output.report_failure(error, as_json=as_json())) from error
