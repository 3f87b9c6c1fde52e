"""`headrace logs`: print and follow the log files of a data folder."""

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
from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output
from headrace.cli.io.control_characters import escape_controls

_PAUSE = 0.25  # seconds between two polls of the file
_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red"}
Line = dict[str, Any]


def logs(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines; stop with Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of lines.")] = 50,
    query: Annotated[str | None, typer.Option(help="Show only lines about this query.")] = None,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help=f"Lowest level to show: {', '.join(logfile.LEVELS)}.")
    ] = "debug",
    as_json: output.Json = False,
) -> None:
    """Show the last lines of this data folder's log.

    The server logs when it starts and stops, statements, and queries that start, stop or fail. The log files are in the
    folder `logs` of the data folder, and are rotated by size: see the settings logging.level, logging.max_file_bytes
    and logging.max_files. Spark's own log is in the same folder, in `spark.log`.

    Example: headrace logs -f --query CTAS_SALES_1
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    if level not in logfile.LEVELS:
        raise typer.BadParameter(f"choose one of: {', '.join(logfile.LEVELS)}", param_hint="'--level'")
    data = call.settings().storage.data
    require_data_folder(data)
    path, matches = data / "logs" / "headrace.log", _line_filter(query, level)
    followed = follow_log_lines(path) if follow else ()
    for line in deque((line for line in read_log_lines(path) if matches(line)), lines):
        _show(line, call)
    for line in followed:
        if matches(line):
            _show(line, call)


def _line_filter(query: str | None, level: str) -> Callable[[Line], bool]:
    lowest = logfile.LEVELS.index(level)
    mentions = re.compile(rf"\b{re.escape(query)}\b", re.IGNORECASE) if query else None

    def matches(line: Line) -> bool:
        line_level = line.get("level")
        if line_level in logfile.LEVELS and logfile.LEVELS.index(line_level) < lowest:
            return False
        return mentions is None or mentions.search(json.dumps(line)) is not None

    return matches


# -- files ----------------------------------------------------------------------------------------------------------


def read_log_lines(path: Path) -> Iterator[Line]:
    """All lines of the file and of its rotated predecessors, oldest first."""
    rotated = [other for other in path.parent.glob(f"{path.name}.*") if other.suffix[1:].isdigit()]
    for file in (*sorted(rotated, key=lambda other: -int(other.suffix[1:])), path):
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as text:
                yield from map(_parsed, text)


def follow_log_lines(path: Path) -> Iterator[Line]:
    """Lines appended from now on, without end, across rotations by any process."""
    return _followed(path, _opened(path, os.SEEK_END))


def _followed(path: Path, file: BinaryIO | None) -> Iterator[Line]:
    while True:
        current = file is not None and _is_current(file, path)  # checked first: a rotated file gets no more lines
        yield from _whole_lines(file) if file is not None else ()
        if not current:
            file = _opened(path, os.SEEK_SET)
        time.sleep(_PAUSE)


def _opened(path: Path, position: int) -> BinaryIO | None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    file.seek(0, position)
    return file


def _whole_lines(file: BinaryIO) -> Iterator[Line]:
    while part := file.readline():
        if not part.endswith(b"\n"):  # incomplete: the rest follows
            file.seek(-len(part), os.SEEK_CUR)
            return
        yield _parsed(part.decode(errors="replace"))


def _is_current(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _parsed(text: str) -> Line:
    """Parse a line as JSON. A line that is not JSON was cut off by a crash."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"message": text.rstrip("\n")}


# -- output ---------------------------------------------------------------------------------------------------------


def _show(line: Line, call: CommandContext) -> None:
    if call.json:
        output.print_json(line)
    else:
        style = _STYLES.get(line.get("level", ""))
        head = " ".join(str(line.get(name, "-")) for name in ("time", "level", "pid"))
        output.stdout_console().print(
            escape_controls(f"{head}  {_message(line)}", "\n\t"), style=style, markup=False, soft_wrap=True
        )
    sys.stdout.flush()


def _message(line: Line) -> str:
    error = line.get("error")
    cause = f" ({error.get('code')}: {error.get('what')})" if isinstance(error, dict) else ""
    return f"{line.get('message', '')}{cause}"
