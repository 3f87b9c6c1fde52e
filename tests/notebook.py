"""Executes the code cells of a notebook in one namespace, as Jupyter does, without its server."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A code cell, and the text of the outputs that are stored with it."""

    source: str
    output: str
    tags: tuple[str, ...] = ()


def code_cells(path: Path) -> list[Cell]:
    found = (cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code")
    return [
        Cell("".join(cell["source"]), _stored(cell["outputs"]), tuple(cell["metadata"].get("tags", ())))
        for cell in found
    ]


def _stored(outputs: list[dict[str, Any]]) -> str:
    """The printed text, and the text of the last expression."""
    return "".join("".join(one["text"] if "text" in one else one["data"]["text/plain"]) for one in outputs).strip()


def execute(cell: Cell, namespace: dict[str, Any]) -> str:
    """Execute a cell; returns what it prints, and the value of its last line if that is an expression."""
    tree = ast.parse(cell.source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "notebook", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace) if last is not None else None
    return (printed.getvalue() + ("" if value is None else repr(value))).strip()
