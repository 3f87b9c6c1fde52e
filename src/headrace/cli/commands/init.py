"""`headrace init`: create a project folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.io import output


def init(folder: Annotated[Path, typer.Argument(help="The folder; it must be new, or empty.")]) -> None:
    """Create a project folder: settings, a click stream in KSQL, a generator that sends clicks, and a list of things to
    try.

    Example: headrace init clicks
    """
    from headrace import project_template

    for path in project_template.create_project(folder):
        output.note(f"wrote {path}")
    output.note(f"next: cd {folder}, headrace up, and see README.md")
