"""`headrace run`."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import output, scripts
from headrace.cli.call import Call
from headrace.lang.ksql.script import Checked
from headrace.plan import catalog

if TYPE_CHECKING:
    from headrace.cli.watching import Display
    from headrace.control.program import Program
    from headrace.control.status import Status, Watch

app = typer.Typer()
_INTERRUPTED = 130


@app.command()
def run(
    ctx: typer.Context,
    file: scripts.Script,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when all that is there is done.")] = False,
    name: Annotated[
        str | None, typer.Option(help="The program's name, under which it goes on; the file's if left out.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="End after this long.", min=0)] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a moving table.")] = False,
    as_json: output.Json = False,
) -> None:
    """Run a KSQL script, or the app of a Python file, over the log, on Spark, until it is stopped.

    The whole script is checked first. Then its topics are made, its rows inserted, its questions answered and its
    queries run. Ctrl-C lets the batches under way end; a second Ctrl-C ends at once. Run again, the program goes on
    where it was, and no row is inserted twice. Exit code 1 if a query or an ASSERT fails.

    Example: headrace run pageviews.ksql

    Example: headrace run pageviews.ksql --until-idle --json

    Example: headrace run app.py
    """
    call: Call = ctx.obj
    call.json |= as_json
    script = scripts.read(file)
    program_name = _named(name or re.sub(r"[^A-Za-z0-9._-]", "-", script.program))
    found = scripts.checked(script)
    _refuse_questions(found)
    scripts.refuse(found, as_json=call.json)
    from headrace.cli.watching import display

    _run(call, script, found, program_name, display(plain=plain, as_json=call.json), until_idle, seconds)


def _named(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name):
        raise typer.BadParameter("a program's name is 1 to 100 letters, digits, dots, dashes and underscores")
    return name


def _refuse_questions(found: Checked) -> None:
    """A SELECT would have nobody to answer; it is told before anything runs."""
    asks = [planned for planned in found.planned if isinstance(planned.action, catalog.Ask)]
    if asks:
        from headrace.control.program import refused_question

        for planned in asks:
            error = refused_question()
            error.where = planned.where
            found.errors.append(error)


def _run(
    call: Call,
    script: scripts.Statements,
    found: Checked,
    name: str,
    display: Display,
    until_idle: bool,
    seconds: float | None,
) -> None:
    with call.log(create=True, long=True) as log:
        with display.busy("loading Spark"):
            from headrace.control.program import Program
            from headrace.control.status import Watch
            from headrace.engine.batch.shipping import no_setup

        setup = script.setup or no_setup
        program = Program(log, call.settings(), name=name, on_answer=display.answer, setup=setup)
        watch, ended = Watch(), "failed"
        with _signals_kept():
            try:
                _drain_on_signals(program)
                if _has_queries(found):
                    with display.busy("starting Spark"):
                        program.start_spark()
                    _drain_on_signals(program)  # Spark has taken Ctrl-C for itself
                with display.busy("starting the queries"):
                    program.execute(script.text, script.name)
                ended = _watched(program, watch, display, until_idle, seconds)
            finally:
                with display.busy("letting the batches under way end"):
                    program.close()
                display.end(_summary(program, ended), _look(program, watch))


def _has_queries(found: Checked) -> bool:
    return any(isinstance(p.action, catalog.Create | catalog.Insert) and p.action.query for p in found.planned)


def _watched(program: Program, watch: Watch, display: Display, until_idle: bool, seconds: float | None) -> str:
    """Show the program until it ends; why it did."""
    begun = shown = time.monotonic()
    with display.showing() as show:

        def look() -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= display.every:
                shown = now
                show(_look(program, watch))
            if seconds is not None and now - begun >= seconds:
                program.stopping.set()

        program.wait(until_idle=until_idle, on_look=look)
    if not program.stopping.is_set():
        return "nothing is left to do"
    return "stopped" if seconds is None or time.monotonic() - begun < seconds else f"{seconds:g} s are over"


def _look(program: Program, watch: Watch) -> list[Status]:
    return [watch.look(running) for running in program.running.values()]


def _summary(program: Program, ended: str) -> dict[str, Any]:
    return {
        "ended": ended,
        "program": program.name,
        "inserted": program.inserts.done,
        "repeated": program.inserts.repeated,
        "asserts": program.questions.held,
        "paused": sorted(program.paused),
        "left": program.left,
    }


# -- signals --------------------------------------------------------------------------------------------------------


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """What signals did before, they do after."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drain_on_signals(program: Program) -> None:
    """Ctrl-C and SIGTERM end the program when its batches are done; the second one ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        if program.stopping.is_set():
            os._exit(_INTERRUPTED)
        program.stopping.set()

    for number in _SIGNALS:
        signal.signal(number, stop)
