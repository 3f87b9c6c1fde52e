"""Errors of ours on the terminal: code, what, where and fix, in colour for people or as one JSON object."""

from __future__ import annotations

import os
import sys

import orjson
from rich.text import Text

from headrace.cli import output
from headrace.errors import HeadraceError, Retry

FAILED, TRY_AGAIN, NOBODY_READS = 1, 75, 141


def exit_code(error: HeadraceError) -> int:
    """75 (EX_TEMPFAIL) when the same command may succeed later."""
    return TRY_AGAIN if isinstance(error, Retry) else FAILED


def show(error: HeadraceError, *, as_json: bool) -> None:
    """Print an error on standard error."""
    if as_json:
        print(orjson.dumps(error.as_dict()).decode(), file=sys.stderr)
    else:
        output.errors().print(_text(error), soft_wrap=True)


def _text(error: HeadraceError) -> Text:
    text = Text.assemble((error.code, "bold red"), ": ", error.what)
    if error.where:
        text.append(f"\n  at {error.where}", "dim")
    for line in (getattr(error, "excerpt", None) or "").splitlines():
        text.append(f"\n    {line}")
    if error.fix:
        text.append("\n  fix: ", "green").append(error.fix)
    return text


def silence_output() -> None:
    """The reader of our output is gone: let nothing that is still buffered complain about it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
