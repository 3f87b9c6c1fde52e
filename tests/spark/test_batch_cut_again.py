"""A batch that is cut again does not see the state that its earlier attempt has stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.contracts import Append
from headrace.control.program import Program
from headrace.control.workers.isolation import ProcessPerQuery
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings
from tests.spark.conftest import forget_last_commit
from tests.spark.test_program import NUMBERS, SUMS, run, values

_EVERY_BATCH = ("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1")


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def append(log: EmbeddedLog, *numbers: int) -> None:
    """All at once: one batch."""
    log.append([Append("numbers", from_records([Record(b'{"N": %d}' % n, b"1") for n in numbers]))])


@pytest.mark.timeout(900)
def test_a_kill_after_the_second_cut_leaves_no_snapshot_of_the_first(
    log: EmbeddedLog, settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log.create_topic("numbers")
    append(log, 1, 2)
    run(log, settings, NUMBERS + SUMS)
    append(log, 10, 20, 30, 40)
    spark.conf.set(*_EVERY_BATCH)
    try:
        (query,) = run(log, settings, NUMBERS + SUMS).running.values()
    finally:
        spark.conf.unset(_EVERY_BATCH[0])
    checkpoint = query.folder / "spark"
    assert list(checkpoint.glob("state/0/*/2.zip"))
    # As if the driver had died between the tasks' commits and its own.
    assert forget_last_commit(checkpoint) == 1
    with log.store.transaction() as db:
        db.execute("UPDATE writers SET last = 0 WHERE last = 1")
    # Its records come in batches of two now; the process is killed in the second one, before Spark writes snapshots.
    monkeypatch.setenv("HEADRACE_FAULTPOINT", f"sink.staged:2:{tmp_path / 'killed'}")
    small = settings.replace(query_max_batch_rows=2)
    with Program(log, small, isolation=ProcessPerQuery("program", log, small)) as program:
        program.execute(NUMBERS + SUMS)
        program.wait(until_idle=True)
    assert (tmp_path / "killed").exists()
    assert values(log, "SUMS")[-1] == {"TOTAL": 103}
