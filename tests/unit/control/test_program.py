"""What a program does before Spark is needed."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from headrace.control.program import Program
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.engine.log_adapter import Position
from headrace.errors import BadProperty, BadSetting, ProcessLost, ProgramRunning, Unsupported
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.settings import Settings

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');\n"
COPY = "CREATE STREAM copy AS SELECT * FROM clicks;\n"


def test_a_query_that_the_script_ends_or_pauses_never_begins(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(f"{CLICKS}{COPY}TERMINATE CSAS_COPY_0;")
        assert (program.queries, program.running) == ({}, {})
        program.execute("DROP STREAM copy DELETE TOPIC;" + COPY + "PAUSE CSAS_COPY_0;")
        assert (program.paused, program.running) == ({"CSAS_COPY_0"}, {})
        program.execute("DROP STREAM copy DELETE TOPIC;")
        assert (program.queries, program.is_idle()) == ({}, True)
    assert [topic.name for topic in log.topics()] == ["clicks"]


def test_a_setting_without_sense(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program, pytest.raises(BadProperty, match="cannot be 'middle'"):
        program.execute(f"SET 'auto.offset.reset' = 'middle';{CLICKS}{COPY}")


@pytest.mark.parametrize("name", ["auto.offset.reset", "ksql.streams.auto.offset.reset"])
def test_latest_counts_from_where_the_statement_stands(log: EmbeddedLog, settings: Settings, name: str) -> None:
    insert = "INSERT INTO clicks VALUES (1, '/');"
    script = f"SET '{name}' = 'latest';{CLICKS}{insert}{COPY}{insert}PAUSE CSAS_COPY_0;"
    with Program(log, settings) as program:
        program.execute(script)
        head = log.head(["clicks"])
        assert program.queries["CSAS_COPY_0"].start == {"sequence": head - 1}


def test_nobody_is_there_to_be_answered(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program, pytest.raises(Unsupported):
        program.execute(f"{CLICKS}SELECT * FROM clicks EMIT CHANGES;")


def test_stopping_ends_the_script_where_it_is(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.stopping.set()
        program.execute(CLICKS + COPY)
        program.wait()
        assert (log.topics(), program.running) == ([], {})


def test_two_programs_of_a_name_on_one_log(log: EmbeddedLog, settings: Settings) -> None:
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

    def warm_up(self) -> None: ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        self.starts += 1
        raise ProcessLost(f"query {query.id} lost its Python worker process")

    def close(self) -> None: ...


def test_a_start_that_fails_is_tried_a_few_times(log: EmbeddedLog, settings: Settings) -> None:
    lost = Lost()
    with Program(log, settings, isolation=lost) as program, pytest.raises(ProcessLost):
        program.execute(CLICKS + COPY)
    assert lost.starts == 6


def test_an_isolation_that_there_is_not_is_refused(log: EmbeddedLog, settings: Settings) -> None:
    with pytest.raises(BadSetting, match='isolation" cannot be "container"'):
        Program(log, settings.replace(query_isolation="container"))
