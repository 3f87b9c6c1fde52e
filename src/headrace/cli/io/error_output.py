"""Errors on the terminal: code, what, where and fix, in colour for people or as one JSON object.

Every exception that ends a command becomes one message and an exit code. An exception that is not a headrace error is
an internal error; its traceback is written to a file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback

import orjson
from rich.text import Text
from typer.exceptions import TyperException

from headrace.cli.io import output
from headrace.cli.io.control_characters import escape_controls
from headrace.cli.io.usage_errors import command_line_error
from headrace.errors import AccessDenied, BadCommandLine, HeadraceError, InternalError, Retry, SystemFailed

_TAB = "\t"
EXIT_FAILED, EXIT_USAGE, EXIT_RETRY, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 1, 2, 75, 130, 141


def report_failure(error: BaseException, *, as_json: bool) -> int:
    """Print why a command ended early, and return its exit code."""
    if isinstance(error, KeyboardInterrupt):
        output.note(": ".join(["stopped by Ctrl-C", *map(str, error.args)]))
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        silence_output()
        return EXIT_BROKEN_PIPE
    failure = as_headrace_error(error)
    print_error(failure, as_json=as_json)
    return exit_code(failure)


def as_headrace_error(error: BaseException) -> HeadraceError:
    """The error itself, or what the parser or the operating system reports, or an internal error."""
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, TyperException):
        return command_line_error(error)
    return system_error(error) if isinstance(error, OSError) else internal_error(error)


def internal_error(error: BaseException) -> InternalError:
    """An unexpected exception as a headrace error; its traceback goes to a new file in the temporary folder."""
    trace = traceback.format_exception(error)
    with tempfile.NamedTemporaryFile("w", prefix="headrace-error-", suffix=".txt", delete=False) as details:
        details.writelines(trace)
    return InternalError(
        f"headrace failed unexpectedly: {trace[-1].strip()}",
        where=details.name,
        fix="please report this error with that file; HEADRACE_TRACEBACK=1 shows its contents on the terminal",
    )


def exit_code(error: HeadraceError) -> int:
    """2 if the command line is wrong, 75 (EX_TEMPFAIL) if the same command may succeed later, else 1."""
    if isinstance(error, BadCommandLine):
        return EXIT_USAGE
    return EXIT_RETRY if isinstance(error, Retry) else EXIT_FAILED


def system_error(error: OSError) -> HeadraceError:
    """An error of the operating system as a headrace error."""
    what, where = error.strerror or str(error), str(error.filename or "") or None
    if isinstance(error, PermissionError):
        return access_denied(where or "a file")
    return SystemFailed(f"the operating system reports: {what}", where=where, fix="check the file, its folder and disk")


def access_denied(path: object) -> AccessDenied:
    """The error for a file or folder that belongs to another user."""
    return AccessDenied(
        f'you have no permission to use "{path}"',
        fix="run the command as its owner, or name another folder with --data",
    )


def print_error(error: HeadraceError, *, as_json: bool) -> None:
    """Print an error on standard error."""
    if as_json:
        print(orjson.dumps(error.as_dict()).decode(), file=sys.stderr)
    else:
        output.stderr_console().print(_text(error), soft_wrap=True)


def _text(error: HeadraceError) -> Text:
    text = Text.assemble((error.code, "bold red"), ": ", escape_controls(error.what, "\n"))
    if error.where:
        text.append(f"\n  at {escape_controls(error.where)}", "dim")
    for line in (getattr(error, "excerpt", None) or "").splitlines():
        text.append(f"\n    {escape_controls(line, _TAB)}")
    if error.fix:
        text.append("\n  fix: ", "green").append(escape_controls(error.fix, "\n"))
    return text


def silence_output() -> None:
    """Discard buffered output after its reader has closed the pipe, so that flushing does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
