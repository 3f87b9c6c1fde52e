"""`headrace init`: create a project folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.io import output


def init(folder: Annotated[Path, typer.Argument(help="Folder to create. It must be empty or not exist.")]) -> None:
    """Create a project folder with an example.

    It contains settings, a click stream in KSQL, a script that sends clicks, and a README with things to try.

    Example: headrace init clicks
    """
    from headrace import project_template

    for path in project_template.create_project(folder):
        output.note(f"wrote {path}")
    output.note(f"next: cd {folder}, start the server with headrace up, and see README.md")
