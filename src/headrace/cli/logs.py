"""`headrace logs`."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from headrace import logfile
from headrace.cli import output
from headrace.cli.call import Call, check_folder

_PAUSE = 0.25  # seconds between two looks at the file
_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red"}
Line = dict[str, Any]


def logs(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are added.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    query: Annotated[str | None, typer.Option(help="Only what is said of this query.")] = None,
    level: Annotated[str, typer.Option(help=f"The least severe level: {', '.join(logfile.LEVELS)}.")] = "debug",
    as_json: output.Json = False,
) -> None:
    """What the processes of this data folder have logged, the oldest of the last lines first.

    The files are in `logs` of the data folder, and rotated by size: see the settings log_level, log_file_bytes and
    log_file_count. What Spark says is in `spark.log` beside them.

    Example: headrace logs -f --query CTAS_SALES_1
    """
    call: Call = ctx.obj
    call.json |= as_json
    if level not in logfile.LEVELS:
        raise typer.BadParameter(f"choose one of: {', '.join(logfile.LEVELS)}")
    data = call.settings().data
    check_folder(data)
    path, wanted = data / "logs" / "headrace.log", _wanted(query, level)
    following = added(path) if follow else ()
    for line in deque((line for line in written(path) if wanted(line)), lines):
        _show(line, call)
    for line in following:
        if wanted(line):
            _show(line, call)


def _wanted(query: str | None, level: str) -> Callable[[Line], bool]:
    least = logfile.LEVELS.index(level)
    named = re.compile(rf"\b{re.escape(query)}\b", re.IGNORECASE) if query else None

    def wanted(line: Line) -> bool:
        own = line.get("level")
        if own in logfile.LEVELS and logfile.LEVELS.index(own) < least:
            return False
        return named is None or named.search(json.dumps(line)) is not None

    return wanted


# -- the files ------------------------------------------------------------------------------------------------------


def written(path: Path) -> Iterator[Line]:
    """All lines of the file and of those that were rotated away, the oldest first."""
    rotated = [other for other in path.parent.glob(f"{path.name}.*") if other.suffix[1:].isdigit()]
    for file in (*sorted(rotated, key=lambda other: -int(other.suffix[1:])), path):
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as text:
                yield from map(_parsed, text)


def added(path: Path) -> Iterator[Line]:
    """Lines that are added from now on, without end, whoever rotates the file."""
    return _followed(path, _opened(path, os.SEEK_END))


def _followed(path: Path, file: BinaryIO | None) -> Iterator[Line]:
    while True:
        current = file is not None and _is_current(file, path)  # looked at first: then nothing more comes into another
        yield from _whole_lines(file) if file is not None else ()
        if not current:
            file = _opened(path, os.SEEK_SET)
        time.sleep(_PAUSE)


def _opened(path: Path, whence: int) -> BinaryIO | None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    file.seek(0, whence)
    return file


def _whole_lines(file: BinaryIO) -> Iterator[Line]:
    while part := file.readline():
        if not part.endswith(b"\n"):  # its end comes
            file.seek(-len(part), os.SEEK_CUR)
            return
        yield _parsed(part.decode(errors="replace"))


def _is_current(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _parsed(text: str) -> Line:
    """A line that is no JSON was cut by a crash."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": text.rstrip("\n")}


# -- what is shown --------------------------------------------------------------------------------------------------


def _show(line: Line, call: Call) -> None:
    if call.json:
        output.print_json(line)
    else:
        style = _STYLES.get(line.get("level", ""))
        head = " ".join(str(line.get(name, "-")) for name in ("time", "level", "pid"))
        output.results().print(f"{head}  {_said(line)}", style=style, markup=False, soft_wrap=True)
    sys.stdout.flush()


def _said(line: Line) -> str:
    error = line.get("error")
    cause = f" ({error.get('code')}: {error.get('what')})" if isinstance(error, dict) else ""
    return f"{line.get('message', '')}{cause}"
