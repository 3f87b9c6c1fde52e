"""The execution mode of a join of streams, new and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.engine.checkpoint import Checkpoint
from headrace.engine.planning.mode import choose_execution_on
from headrace.engine.query import prepare_query
from headrace.errors import BadSetting, PlanChanged
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests.ksql_strategies import planned

JOIN = planned(
    "CREATE STREAM o AS SELECT s.id, s.a, r.x FROM s JOIN r WITHIN 4 SECONDS GRACE PERIOD 1 SECOND ON s.id = r.id;"
)
REASON = "whether rows of two streams meet depends on the time of both, record by record"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        for topic in (JOIN.sink.topic, *(source.topic for source in JOIN.sources)):
            opened.create_topic(topic)
        yield opened


def test_a_join_of_streams_runs_in_record_mode(log: EmbeddedLog) -> None:
    choice = choose_execution_on(log, JOIN, Settings())
    assert (choice.execution_mode, choice.reasons) == ("record", (REASON,))


def test_a_join_of_streams_is_refused_where_native_mode_is_required(log: EmbeddedLog) -> None:
    with pytest.raises(BadSetting, match=REASON):
        choose_execution_on(log, JOIN, Settings.of(query_execution_mode="native"))


def test_a_checkpoint_of_a_native_join_of_streams_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    Checkpoint(tmp_path / "q").open(JOIN, "native", 1, tuple(source.topic for source in JOIN.sources))
    with pytest.raises(PlanChanged, match="its execution mode was native, now it is record") as raised:
        prepare_query(log, JOIN, Settings(), tmp_path / "q")
    assert "headrace state remove" in (raised.value.fix or "")
