"""`headrace version`: print the version."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

from headrace import __version__
from headrace.cli.context import CommandContext
from headrace.cli.io import output

app = typer.Typer()
_PARTS = ("pyspark", "pyarrow", "confluent-kafka")


@app.command()
def version(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Print the version.

    With --json, the versions of Python, Spark and other components are included.

    Example: headrace version
    """
    call: CommandContext = ctx.obj
    if call.json or as_json:
        parts = {name: _installed(name) for name in _PARTS}
        output.print_json({"headrace": __version__, "python": platform.python_version(), **parts})
    else:
        typer.echo(f"headrace {__version__}")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
