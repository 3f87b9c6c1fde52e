"""`headrace run`: run a KSQL script or a Python app on Spark."""

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

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.script import Script, ScriptText, analyze_script, exit_on_errors, load_script
from headrace.lang.contract import CheckedScript
from headrace.plan import actions

if TYPE_CHECKING:
    from headrace.cli.io.progress import ProgressDisplay
    from headrace.control.program import Program
    from headrace.control.queries.metrics import MetricsSampler, QueryMetrics

app = typer.Typer()
_INTERRUPTED = 130


@app.command()
def run(
    ctx: typer.Context,
    file: Script,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when all input is processed.")] = False,
    name: Annotated[
        str | None, typer.Option(help="Program name; it resumes under this name. Default: the file's name.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.", min=0)] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live table.")] = False,
    as_json: output.Json = False,
) -> None:
    """Run a KSQL script or a Python app on Spark, until Ctrl-C.

    The whole script is checked first. Then its topics are created, its rows inserted, its metadata queries (such as
    LIST and DESCRIBE) answered, and its queries started. Ctrl-C stops the program after the batches in progress; a
    second Ctrl-C stops it at once. A program that is run again resumes where it stopped, and inserts no row twice. The
    exit code is 1 if a query or an ASSERT fails.

    Example: headrace run pageviews.ksql

    Example: headrace run pageviews.ksql --until-idle --json

    Example: headrace run app.py
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    script = load_script(file)
    program_name = _check_name(name or re.sub(r"[^A-Za-z0-9._-]", "-", script.program))
    checked = analyze_script(script)
    _refuse_queries(checked)
    exit_on_errors(checked, as_json=call.json)
    from headrace.cli.io.progress import make_display

    _run(call, script, checked, program_name, make_display(plain=plain, as_json=call.json), until_idle, seconds)


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name):
        raise typer.BadParameter(
            "a program's name is 1 to 100 letters, digits, dots, dashes and underscores", param_hint="'--name'"
        )
    return name


def _refuse_queries(checked: CheckedScript) -> None:
    """Reject SELECT statements before anything runs: there is no client to receive the rows."""
    selects = [planned for planned in checked.planned if isinstance(planned.action, actions.TransientSelect)]
    if selects:
        from headrace.lang.interpreter import select_not_allowed

        for planned in selects:
            error = select_not_allowed()
            error.where = planned.where
            checked.errors.append(error)


def _run(
    call: CommandContext,
    script: ScriptText,
    checked: CheckedScript,
    name: str,
    display: ProgressDisplay,
    until_idle: bool,
    seconds: float | None,
) -> None:
    with call.log(create=True, long=True) as log:
        with display.busy("loading Spark"):
            from headrace.control.program import Program
            from headrace.control.queries.metrics import MetricsSampler
            from headrace.plan.serialization import no_setup

        setup = script.setup or no_setup
        program = Program(
            log, call.settings(), name=name, language=script.language, on_answer=display.answer, setup=setup
        )
        sampler, outcome = MetricsSampler(), "failed"
        with _restored_signals():
            try:
                _drain_on_signals(program)
                if _has_queries(checked):
                    with display.busy("starting Spark"):
                        program.start_spark()
                    _drain_on_signals(program)  # Spark has installed its own handler for Ctrl-C
                with display.busy("starting the queries"):
                    program.execute(script.text, script.name)
                outcome = _watch(program, sampler, display, until_idle, seconds)
            finally:
                with display.busy("finishing the current batches"):
                    program.close()
                display.end(_summary(program, outcome), _sample(program, sampler))


def _has_queries(checked: CheckedScript) -> bool:
    return any(
        isinstance(p.action, actions.CreateSource | actions.StartQuery) and p.action.query for p in checked.planned
    )


def _watch(
    program: Program, sampler: MetricsSampler, display: ProgressDisplay, until_idle: bool, seconds: float | None
) -> str:
    """Show the program's progress until it stops; returns the reason why it stopped."""
    started = shown_at = time.monotonic()
    with display.showing() as show:

        def on_poll() -> None:
            nonlocal shown_at
            now = time.monotonic()
            if now - shown_at >= display.every:
                shown_at = now
                show(_sample(program, sampler))
            if seconds is not None and now - started >= seconds:
                program.stopping.set()

        program.wait(until_idle=until_idle, on_poll=on_poll)
    if not program.stopping.is_set():
        return "all input is processed"
    return "stopped" if seconds is None or time.monotonic() - started < seconds else f"stopped after {seconds:g} s"


def _sample(program: Program, sampler: MetricsSampler) -> list[QueryMetrics]:
    return [sampler.sample(running) for running in program.running.values()]


def _summary(program: Program, outcome: str) -> dict[str, Any]:
    return {
        "ended": outcome,
        "program": program.name,
        "inserted": program.inserts.written,
        "repeated": program.inserts.skipped,
        "asserts": program.interpreter.assertions,
        "paused": sorted(program.paused),
        "orphaned_checkpoints": program.orphaned_checkpoints,
    }


# -- signals --------------------------------------------------------------------------------------------------------


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _restored_signals() -> Iterator[None]:
    """Restore the previous signal handlers at the end of the block."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drain_on_signals(program: Program) -> None:
    """Ctrl-C and SIGTERM stop the program after the batches in progress; the second signal stops it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        if program.stopping.is_set():
            os._exit(_INTERRUPTED)
        program.stopping.set()

    for number in _SIGNALS:
        signal.signal(number, stop)
