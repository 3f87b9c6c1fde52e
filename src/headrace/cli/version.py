"""`headrace version`."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

from headrace import __version__
from headrace.cli import output
from headrace.cli.call import Call

app = typer.Typer()
_PARTS = ("pyspark", "pyarrow", "confluent-kafka")


@app.command()
def version(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Print the version, and with --json those of its parts.

    Example: headrace version
    """
    call: Call = ctx.obj
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
