"""Queries of a restored backup resume with their state, where the backup's log ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.control.program import Program
from headrace.engine.io.checkpoint_copy import copy_checkpoints
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.backup import backup, restore
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.test_program import BIG, NUMBERS, SUMS, run, values


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def append(log: EmbeddedLog, *numbers: int) -> None:
    for n in numbers:
        memory_and_spark.append(log, "numbers", "1", f'{{"N": {n}}}', 0)


def test_a_restored_query_resumes_where_the_log_ends(log: EmbeddedLog, settings: Settings, tmp_path: Path) -> None:
    log.create_topic("numbers")

    def also(*arguments: object) -> None:
        """The queries go on between the copy of the log and that of their checkpoints."""
        append(log, 100, 200)
        program.wait(until_idle=True)
        copy_checkpoints(*arguments)  # type: ignore[arg-type]

    with Program(log, settings) as program:
        program.execute(NUMBERS + SUMS + BIG)
        append(log, 10, 20)
        program.wait(until_idle=True)
        backup(settings.storage.data, tmp_path / "copy", also=also)
    restore(tmp_path / "copy", tmp_path / "new", also=copy_checkpoints)

    there = settings.replace(storage_data=tmp_path / "new")
    with EmbeddedLog(tmp_path / "new", there) as restored:
        assert values(restored, "SUMS")[-1] == {"TOTAL": 30}
        before = len(values(restored, "SUMS"))
        append(restored, 40)
        run(restored, there, NUMBERS + SUMS + BIG)
        assert values(restored, "SUMS")[before:] == [{"TOTAL": 70}]
        assert values(restored, "BIG") == [{"N": 20}, {"N": 40}]
    assert values(log, "SUMS")[-1] == {"TOTAL": 330}
    append(log, 1)
    run(log, settings, NUMBERS + SUMS + BIG)  # the original does not share files that change
    assert values(log, "SUMS")[-1] == {"TOTAL": 331}
