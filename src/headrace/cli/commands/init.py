"""`headrace init`: create a project folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.io import output
from headrace.cli.program_command import program_command, python_command


def init(folder: Annotated[Path, typer.Argument(help="Folder to create. It must be empty or not exist.")]) -> None:
    """Create a project folder with an example.

    It contains settings, a click stream in KSQL, a script that sends clicks, and a README with things to try.

    Example: headrace init clicks
    """
    from headrace import project_template

    program, python = program_command(folder=folder.resolve()), python_command(folder.resolve())
    for path in project_template.create_project(folder, program=program, python=python):
        output.note(f"wrote {path}")
    output.note(f"next: cd {shlex.quote(str(folder))}, start the server with {program} up, and see README.md")
