"""A Python app on Spark: functions, operators and timers run in its workers as in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.control.program import Program
from headrace.lang.python.app_code import AppCode, load
from headrace.log.embedded import EmbeddedLog
from headrace.log.topic_spec import ensure_topic
from headrace.settings import Settings
from tests import memory_and_spark

EXAMPLE = Path(__file__).parents[2] / "examples/python/clicks.py"
FIRST: list[memory_and_spark.Input] = [
    ("users", '"ann"', '{"CARD": "1234567812345678"}', 0),
    ("clicks", '"ann"', '{"PAGE": "/", "AMOUNT": 500}', 1_000),
    ("clicks", '"bob"', '{"PAGE": "/"}', 2_000),
]
THEN: list[memory_and_spark.Input] = [
    ("clicks", '"ann"', '{"PAGE": "/shop", "AMOUNT": 20}', 20_000),
    ("clicks", '"bob"', '{"PAGE": "/"}', 40_000),  # bob's first visit has ended at 32 s, ann's goes on until 50 s
    ("clicks", '"cat"', '{"PAGE": "/shop"}', 90_000),
]


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


VISITS = """
import headrace as hr

class Stays(hr.Operator):
    output = "seconds BIGINT"

    def on_event(self, event, ctx):
        ctx.state = {"since": (ctx.state or {"since": event.time})["since"]}
        ctx.set_timer(event.time + 30_000)

    def on_timer(self, timer, ctx):
        ctx.emit(seconds=(timer.time - ctx.state["since"]) // 1000)
        ctx.state = None

app = hr.App("stays")
app.stream("clicks", "user STRING KEY, page STRING").operate(Stays).to_stream("stays")
"""


def piece(
    log: EmbeddedLog, settings: Settings, text: str, code: AppCode, inputs: Sequence[memory_and_spark.Input]
) -> list[str]:
    # A clock that stands still: on a busy machine the restart could take longer than the timers of the app.
    with Program(log, settings, clock=ManualClock(1_000_000_000), setup=code) as program:
        program.execute(text)
        for topic, key, value, time in inputs:
            memory_and_spark.append(log, topic, key, value, time)
        program.wait(until_idle=True)
        return [running.query.sink.topic for running in program.running.values()]


def test_an_app_gives_the_results_of_memory_across_a_restart(log: EmbeddedLog, settings: Settings) -> None:
    code, app = load(EXAMPLE)
    for topic in ("users", "clicks"):
        ensure_topic(log, topic)
    sinks = [topic for inputs in (FIRST, THEN) for topic in piece(log, settings, app.text, code, inputs)]
    expected = memory_and_spark.in_memory(app.text, [*FIRST, *THEN])
    assert set(sinks) == set(expected) == {"PER_PAGE", "PER_MINUTE", "VISITS", "BOUGHT", "LARGE"}
    assert [value for _, value, _ in expected["VISITS"]] == [
        b'{"PAGES":1,"SPENT":0}',
        b'{"PAGES":2,"SPENT":520}',
        b'{"PAGES":1,"SPENT":0}',
    ]
    for topic in sinks:
        assert memory_and_spark.by_key(memory_and_spark.written(log, topic)) == memory_and_spark.by_key(expected[topic])


def test_timers_fire_on_idle_input_and_after_a_restart(log: EmbeddedLog, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "stays.py").write_text(VISITS)
    code, app = load(tmp_path / "stays.py")
    clock = ManualClock(1_000_000_000)
    with Program(log, settings, clock=clock, setup=code) as program:
        program.execute(app.text)
        memory_and_spark.append(log, "clicks", '"ann"', '{"PAGE": "/"}', 1_000)
        memory_and_spark.append(log, "clicks", '"ann"', '{"PAGE": "/"}', 5_000)
        program.wait(until_idle=True)
        assert memory_and_spark.written(log, "STAYS") == []
    clock.advance(timedelta(seconds=31))
    with Program(log, settings, clock=clock, setup=code) as program:
        program.execute(app.text)
        program.wake()
        program.wait(on_poll=lambda: program.stopping.set() if memory_and_spark.written(log, "STAYS") else None)
    assert memory_and_spark.written(log, "STAYS") == [(b'"ann"', b'{"SECONDS":34}', 35_000)]
