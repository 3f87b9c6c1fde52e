"""Locates a call in the user's Python code, so that an error can show that line and underline the call."""

from __future__ import annotations

import contextlib
import linecache
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType

from headrace.errors import StatementError
from headrace.span import Span

_SKIPPED_FILES = (str(Path(__file__).parents[2]), contextlib.__file__)
"""Files whose frames are skipped."""


@dataclass(frozen=True, slots=True)
class CallSite(Span):
    """A span of a Python file."""

    file: str = ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def call_site() -> CallSite:
    """Return the call outside headrace that led here."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED_FILES):
        frame = frame.f_back
    return CallSite(0, 1, 1, 1) if frame is None else _site_of(frame)


def _site_of(frame: FrameType) -> CallSite:
    """Exact to the column where Python knows it; of a call over several lines only the first."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    line, last, column, end = positions
    if line is None or last is None or column is None or end is None:
        return CallSite(0, 1, frame.f_lineno, 1, frame.f_code.co_filename)
    width = end - column if last == line else 10_000
    return CallSite(0, max(width, 1), line, column + 1, frame.f_code.co_filename)


def locate(error: StatementError, otherwise: CallSite) -> StatementError:
    """Add file and line to the error; `otherwise` is the statement's position."""
    for one in (error, *error.others):
        one.span = span = one.span if isinstance(one.span, CallSite) else otherwise
        text = "".join(linecache.getlines(span.file)) or "\n" * span.line
        others, one.others = one.others, ()
        one.located(text, _relative_path(span.file))
        one.others = others
    return error


def _relative_path(file: str) -> str:
    """Return the path relative to the working directory, if it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
