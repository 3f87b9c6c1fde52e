"""`headrace init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output


def init(folder: Annotated[Path, typer.Argument(help="The folder; it must be new, or empty.")]) -> None:
    """Make a project folder: settings, a click stream in KSQL, something that sends clicks, and what to try.

    Example: headrace init clicks
    """
    from headrace import project

    for path in project.create(folder):
        output.note(f"wrote {path}")
    output.note(f"next: cd {folder}, headrace up, and see README.md")
