"""The table of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from headrace.errors import HeadraceError

# Each command with its line in `headrace --help`. The texts are here so that the help does not import the commands,
# which are in the modules `headrace.cli.commands.NAME`, with underscores for dashes.
COMMANDS: Mapping[str, str] = {
    "demo": "A click stream, counted by Spark, moving in your terminal.",
    "init": "Make a project folder to begin with.",
    "check": "Find every error of a KSQL script before anything of it runs.",
    "explain": "Show what the statements of a KSQL script do, and the plan of each query.",
    "run": "Run a KSQL script over the log, on Spark, until it is stopped.",
    "up": "Serve: statements come over HTTP, and their queries run on.",
    "deploy": "Send the app of a Python file to a server.",
    "sql": "Talk KSQL to a server: at a prompt, from a file, or from a pipe.",
    "down": "End the server of a data folder, and wait until it has.",
    "status": "How the server of a data folder and its queries are doing.",
    "logs": "What the server has logged.",
    "verify": "Compute a query's results again, and compare them with what it has written.",
    "support-bundle": "Gather what somebody who helps must know into one file, without records and secrets.",
    "test": "Run a KSQL script in memory, and compare what comes out with what is expected.",
    "topic": "Create, list, describe, alter and delete topics.",
    "produce": "Append lines of files or of standard input to a topic.",
    "consume": "Print the rows of topics.",
    "queue": "Take messages of a topic one by one, and acknowledge them.",
    "group": "Look at consumer groups, and move them.",
    "schema": "Register, check and list schemas, and serve them over HTTP.",
    "state": "Look at what a query remembers.",
    "storage": "Check, compact and measure the embedded log.",
    "backup": "Copy a data folder while it is in use.",
    "restore": "Make a data folder from a backup.",
    "kafka": "Run Kafka brokers on this machine, and fetch the jars they need.",
    "user": "Add, list, change and remove users.",
    "role": "What roles may do: grants and row filters.",
    "token": "Make tokens for users and programs, and revoke them.",
    "audit": "What was done, by whom, and whether all of it is there.",
    "settings": "Every setting with its value and where it comes from.",
    "secret": "Keep, list and remove secrets that settings refer to.",
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

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HeadraceError as error:
            from headrace.cli.io import error_output

            error_output.print_error(error, as_json=bool(ctx.obj and ctx.obj.json))
            raise typer.Exit(error_output.exit_code(error)) from error
        except BrokenPipeError as error:
            from headrace.cli.io import error_output

            error_output.silence_output()
            raise typer.Exit(error_output.EXIT_BROKEN_PIPE) from error
