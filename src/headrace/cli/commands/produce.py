"""`headrace produce`: append lines to a topic."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.io.line_decoder import LineDecoder, LineFormat
from headrace.cli.io.line_reader import LineBatch, read_lines
from headrace.cli.params.values import Headers
from headrace.contracts import DEAD_LETTER_SIZE_FACTOR, Ack, Log, dead_letter_spec, dead_letter_topic
from headrace.errors import BadRecord, HeadraceError
from headrace.log.topic_spec import ensure_topic
from headrace.settings import size_text

app = typer.Typer()


def _readable(files: list[Path] | None) -> list[Path] | None:
    for path in files or ():
        if str(path) != "-" and (path.is_dir() or not os.access(path, os.R_OK)):
            raise typer.BadParameter(f'cannot read file "{path}"')
    return files


@app.command()
def produce(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|-", help='Files to read. Default, and "-": standard input.', callback=_readable),
    ] = None,
    format: Annotated[
        Literal["raw", "json", "csv"] | None,
        typer.Option(help="Format of a line. Default: json if the topic has a schema, else raw.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Field to use as the key of a raw topic; for CSV also its number.")
    ] = None,
    header: Headers = None,
    delimiter: Annotated[str, typer.Option(help="CSV delimiter.")] = ",",
    names: Annotated[
        bool, typer.Option("--names", help="The first line of each CSV file has the column names.")
    ] = False,
    ack: Annotated[
        Ack, typer.Option(help="Wait until a batch is on disk (all), written, or not at all (none).")
    ] = Ack.ALL,
    batch_rows: Annotated[int, typer.Option(min=1, help="Lines per append, at most.")] = 10_000,
    allow_rejects: Annotated[
        bool, typer.Option("--allow-rejects", help="Exit with 0 even if lines are rejected.")
    ] = False,
) -> None:
    """Append lines of a file or of a pipe to a topic.

    Each line is one record. A line that cannot be decoded is rejected: it goes to the dead-letter topic TOPIC.dead with
    the reason, the first few are shown, and the exit code is 1. Lines are appended in batches; each batch is atomic.

    Example: headrace produce orders orders.jsonl

    Example: tail -f access.log | headrace produce access
    """
    call: CommandContext = ctx.obj
    began = time.monotonic()
    with call.log(long=True) as log:
        described = log.topic(topic)
        format_name = format or ("raw" if described.schema.is_raw else "json")
        intake = LineDecoder(
            described, dead_letter_topic(topic), LineFormat(format_name, key, delimiter, names, tuple(header or ()))
        )
        try:
            size = _send(log, intake, files or [Path("-")], ack, batch_rows, quoted=format_name == "csv")
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"rows read: {intake.rows:,}; the last batch may not be appended") from None
    _report(call, intake, size, time.monotonic() - began)
    if intake.rejects and not allow_rejects:
        total = intake.rows + intake.rejects
        raise BadRecord(
            f'{intake.rejects:,} of {total:,} lines were rejected; they are in topic "{intake.dead_letters}"',
            fix=f"see all: headrace consume {intake.dead_letters} --format json; --allow-rejects accepts them",
        )


def _send(log: Log, intake: LineDecoder, files: list[Path], ack: Ack, batch_rows: int, *, quoted: bool) -> int:
    """Append everything; returns the number of bytes read."""
    longest = DEAD_LETTER_SIZE_FACTOR * intake.topic.spec.max_record_bytes
    known = all(path.is_file() for path in files)
    total = sum(path.stat().st_size for path in files) if known else None
    done = 0
    with _progress(known) as bar:
        task = bar.add_task(intake.topic.name, total=total, rows=0, rate=0)
        for path in files:
            intake.new_file()
            for lines in _lines(path, batch_rows, longest, quoted):
                _append(log, intake, lines, ack)
                done += lines.bytes_read
                elapsed = bar.tasks[task].elapsed or 1
                bar.update(task, completed=done, rows=intake.rows, rate=int(intake.rows / max(elapsed, 0.001)))
    return done


def _append(log: Log, intake: LineDecoder, lines: LineBatch, ack: Ack) -> None:
    appends = intake.appends(lines)
    if any(append.topic == intake.dead_letters for append in appends):
        ensure_topic(log, intake.dead_letters, dead_letter_spec(intake.topic.spec))
    try:
        if appends:
            log.append(appends, ack=ack)
    except HeadraceError as error:
        error.where = error.where or f"{lines.place(0)} to {lines.numbers[-1]}; all lines before it are appended"
        raise


def _lines(path: Path, batch_rows: int, longest: int, quoted: bool) -> Iterator[LineBatch]:
    if str(path) == "-":
        yield from read_lines(0, "stdin", batch_rows, longest, quoted=quoted)
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from read_lines(fd, str(path), batch_rows, longest, quoted=quoted)
    finally:
        os.close(fd)


def _progress(known: bool) -> Progress:
    counts = TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,} rows/s")
    name = TextColumn("{task.description}")
    bar = (BarColumn(), DownloadColumn(), TimeRemainingColumn()) if known else (DownloadColumn(),)
    return output.progress(name, *bar, counts)


def _report(call: CommandContext, intake: LineDecoder, size: int, seconds: float) -> None:
    if call.json:
        counts = {"rows": intake.rows, "rejects": intake.rejects, "bytes": size, "seconds": round(seconds, 3)}
        output.print_json({"topic": intake.topic.name, **counts})
    else:
        for reject in intake.first_rejects:
            output.note(f"rejected {reject}")
        if intake.rejects > len(intake.first_rejects):
            output.note(f"... and {intake.rejects - len(intake.first_rejects):,} more rejected lines")
        output.note(
            f"appended {intake.rows:,} rows ({size_text(size)}) to topic {intake.topic.name} in {seconds:.1f} s"
        )
