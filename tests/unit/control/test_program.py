"""A program before it needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from headrace.control.program import Program
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.control.workers.protocol import WarmUp
from headrace.engine.log_adapter import Position
from headrace.errors import BadProperty, BadSetting, ProcessLost, ProgramRunning, Unsupported
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.settings import Settings

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');\n"
COPY = "CREATE STREAM copy AS SELECT * FROM clicks;\n"


def test_a_query_that_the_script_terminates_or_pauses_never_starts(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(f"{CLICKS}{COPY}TERMINATE CSAS_COPY_0;")
        assert (program.queries, program.running) == ({}, {})
        program.execute("DROP STREAM copy DELETE TOPIC;" + COPY + "PAUSE CSAS_COPY_0;")
        assert (program.paused, program.running) == ({"CSAS_COPY_0"}, {})
        program.execute("DROP STREAM copy DELETE TOPIC;")
        assert (program.queries, program.is_idle()) == ({}, True)
    assert [topic.name for topic in log.topics()] == ["clicks"]


def test_an_invalid_property_value_is_refused(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program, pytest.raises(BadProperty, match="cannot be 'middle'"):
        program.execute(f"SET 'auto.offset.reset' = 'middle';{CLICKS}{COPY}")


@pytest.mark.parametrize("name", ["auto.offset.reset", "ksql.streams.auto.offset.reset"])
def test_latest_starts_at_the_position_of_the_statement(log: EmbeddedLog, settings: Settings, name: str) -> None:
    insert = "INSERT INTO clicks VALUES (1, '/');"
    script = f"SET '{name}' = 'latest';{CLICKS}{insert}{COPY}{insert}PAUSE CSAS_COPY_0;"
    with Program(log, settings) as program:
        program.execute(script)
        head = log.head(["clicks"])
        assert program.queries["CSAS_COPY_0"].start == {"sequence": head - 1}


def test_a_push_query_in_a_script_is_refused(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program, pytest.raises(Unsupported):
        program.execute(f"{CLICKS}SELECT * FROM clicks EMIT CHANGES;")


def test_stopping_executes_no_further_statement(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.stopping.set()
        program.execute(CLICKS + COPY)
        program.wait()
        assert (log.topics(), program.running) == ([], {})


def test_only_one_program_of_a_name_runs_on_a_log(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings, name="a"), Program(log, settings, name="b"), pytest.raises(ProgramRunning):
        Program(log, settings, name="a")
    Program(log, settings, name="a").close()


# -- starts that fail -----------------------------------------------------------------------------------------------


class Lost:
    """Where no process ever comes up."""

    isolates_failures: ClassVar[bool] = False
    needs_restart = False

    def __init__(self) -> None:
        self.starts = 0

    def warm_up(self, then: WarmUp | None = None) -> None: ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        self.starts += 1
        raise ProcessLost(f"query {query.id} lost its Python worker process")

    def close(self) -> None: ...


def test_a_failed_start_is_retried_a_few_times(log: EmbeddedLog, settings: Settings) -> None:
    lost = Lost()
    with Program(log, settings, isolation=lost) as program, pytest.raises(ProcessLost):
        program.execute(CLICKS + COPY)
    assert lost.starts == 6


def test_an_unknown_isolation_is_refused(log: EmbeddedLog, settings: Settings) -> None:
    with pytest.raises(BadSetting, match='isolation" cannot be "container"'):
        Program(log, settings.replace(query_isolation="container"))
