"""Damaged files of a query's state are named, with the partition and the cure; no query goes on with a wrong state."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.engine.recovery import REPROCESS, Decision, decide
from headrace.errors import StateUnreadable
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.test_program import NUMBERS, SUMS, run, values


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a query that has counted two records in two batches."""
    del spark
    given = memory_and_spark.settings(tmp_path_factory.mktemp("original"))
    with EmbeddedLog(given.storage.data, given) as log:
        log.create_topic("numbers")
        for n in (1, 2):
            memory_and_spark.append(log, "numbers", "1", f'{{"N": {n}}}', 0)
            run(log, given, NUMBERS + SUMS)
    return given.storage.data


@pytest.fixture
def log(original: Path, settings: Settings) -> Iterator[EmbeddedLog]:
    shutil.copytree(original, settings.storage.data)
    with EmbeddedLog(settings.storage.data, settings) as opened:
        memory_and_spark.append(opened, "numbers", "1", '{"N": 4}', 0)
        yield opened


@pytest.fixture
def folder(log: EmbeddedLog) -> Path:
    """Its checkpoint, in a copy of that folder."""
    return log.folder / "checkpoints" / "program" / "CTAS_SUMS_0"


def _overwrite(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


ZIP, CHANGELOG, SST = "[0-9]*.zip", "[0-9]*.changelog", "SSTs/*.sst"


@pytest.mark.parametrize(
    ("files", "damage", "has_checksums"),
    [
        pytest.param(ZIP, _cut_off, True, id="zip-cut-off"),
        pytest.param(ZIP, _overwrite, False, id="zip-overwritten-without-checksums"),
        pytest.param(SST, _overwrite, False, id="sst-overwritten-without-checksums"),
        pytest.param(SST, Path.unlink, True, id="sst-missing"),
        pytest.param(CHANGELOG, _cut_off, True, id="changelog-cut-off"),
        pytest.param(CHANGELOG, _cut_off, False, id="changelog-cut-off-without-checksums"),
        pytest.param(CHANGELOG, _overwrite, False, id="changelog-overwritten-without-checksums"),
        pytest.param(CHANGELOG, _empty, False, id="changelog-empty-without-checksums"),
        pytest.param(CHANGELOG, Path.unlink, True, id="changelog-missing"),
    ],
)
def test_a_damaged_state_is_named_with_its_partition_and_its_cure(
    log: EmbeddedLog,
    settings: Settings,
    folder: Path,
    files: str,
    damage: Callable[[Path], None],
    has_checksums: bool,
) -> None:
    state = folder / "spark" / "state"
    if files == CHANGELOG:  # without snapshots they are needed
        for path in [*state.glob("0/*/*.zip"), *state.glob("0/*/.*.zip.crc")]:
            path.unlink()
    damaged = list(state.glob(f"0/[0-9]*/{files}"))
    assert damaged
    for path in damaged:
        damage(path)
    if not has_checksums:
        for path in state.rglob(".*.crc"):
            path.unlink()
    error = failure(log, settings)
    if error is None:  # Spark has rebuilt the state from its other files
        assert files != CHANGELOG
        assert values(log, "SUMS")[-1] == {"TOTAL": 7}
        return
    assert "CTAS_SUMS_0" in error.what
    assert not has_checksums or "in partition " in error.what  # without them, Spark does not say which file it was
    assert (error.where or "").startswith(str(state)), error
    assert "headrace state recover program/CTAS_SUMS_0 --reprocess" in (error.fix or "")


def test_a_query_with_damaged_state_starts_over_as_decided(log: EmbeddedLog, settings: Settings, folder: Path) -> None:
    for path in folder.glob("spark/state/0/[0-9]*/*.*"):
        _overwrite(path)
    assert failure(log, settings) is not None
    decide(folder, Decision(REPROCESS))
    assert failure(log, settings) is None
    assert values(log, "SUMS")[-1] == {"TOTAL": 7}


def failure(log: EmbeddedLog, settings: Settings) -> StateUnreadable | None:
    """Runs the query; what its state makes it fail with."""
    try:
        run(log, settings, NUMBERS + SUMS)
    except StateUnreadable as error:
        return error
    return None
