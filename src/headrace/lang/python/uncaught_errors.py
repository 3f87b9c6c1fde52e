"""Prints a headrace error that ends a Python script as the command line does: code, place and fix, without a traceback.

The traceback would show the planner's functions; the error already names the line of the script. Any other exception,
and a hook that somebody else has installed, stays as it is. With HEADRACE_TRACEBACK the traceback is shown.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

from headrace.errors import HeadraceError


def print_errors_plainly() -> None:
    """Install the hook, unless another one is installed."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_error


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, HeadraceError) and not os.environ.get("HEADRACE_TRACEBACK"):
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
