"""Checkpoints on disk: listed, and removed completely even after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.control.admin.checkpoints import describe_checkpoints, internal_topic_remover, remove_checkpoint
from headrace.control.program import Program
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.control.workers.protocol import WarmUp
from headrace.engine.checkpoint import VERSION, Checkpoint, cuts_topic, finish_removals, ticks_topic
from headrace.engine.log_adapter import Position
from headrace.errors import LogBusy, ProgramRunning, UnknownTopic
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.settings import Settings
from tests.ksql_strategies import planned

QUERY = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")
CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');\n"


@pytest.fixture
def folder(settings: Settings) -> Path:
    return settings.storage.data / "checkpoints"


def begun(log: EmbeddedLog, folder: Path, name: str) -> tuple[Checkpoint, str]:
    """A query that has done two batches, and the topic of its ticks."""
    checkpoint = Checkpoint(folder / name)
    run = checkpoint.open(QUERY, "record", 2, ("s",)).run
    for kind in ("offsets", "commits"):
        (checkpoint.spark / kind).mkdir(parents=True)
        for batch in (0, 1):
            (checkpoint.spark / kind / str(batch)).write_text('v1\n{}\n{"sequence": 7}')
    log.create_topic(ticks_topic(run))
    return checkpoint, ticks_topic(run)


def test_all_checkpoints_are_listed_even_unreadable_ones(log: EmbeddedLog, folder: Path) -> None:
    begun(log, folder, "a/CTAS_O_0")
    old, _ = begun(log, folder, "b/CTAS_O_0")
    path = old.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 1}))
    (folder / "b" / "CTAS_O_1").mkdir()
    (folder / "b" / "CTAS_O_1" / "manifest.json").write_text("{")
    good, older, damaged = describe_checkpoints(folder)
    assert (good.query, good.execution_mode, good.batches, good.files, good.problem) == (
        "a/CTAS_O_0",
        "record",
        2,
        5,
        None,
    )
    assert good.bytes > 100
    assert good.used_at >= int((folder / "a" / "CTAS_O_0" / "manifest.json").stat().st_mtime * 1000)
    assert (older.query, older.execution_mode, older.problem) == (
        "b/CTAS_O_0",
        None,
        f"the checkpoint has version 1, but this program supports {VERSION}",
    )
    assert (damaged.query, damaged.batches, damaged.problem) == (
        "b/CTAS_O_1",
        0,
        "query CTAS_O_1 cannot resume: the manifest is damaged",
    )


def test_removing_a_checkpoint_deletes_its_topics(log: EmbeddedLog, folder: Path) -> None:
    checkpoint, ticks = begun(log, folder, "a/CTAS_O_0")
    _, other = begun(log, folder, "a/CTAS_O_1")
    log.create_topic(cuts_topic(ticks.removeprefix("__ticks.")))
    remove_checkpoint(log, checkpoint)
    assert [one.query for one in describe_checkpoints(folder)] == ["a/CTAS_O_1"]
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["CTAS_O_1", "program.lock"]
    for gone in (ticks, ticks.replace("ticks", "cuts")):
        with pytest.raises(UnknownTopic):
            log.topic(gone)
    assert log.topic(other)


def test_the_checkpoint_of_a_running_program_is_not_removed(log: EmbeddedLog, folder: Path, settings: Settings) -> None:
    checkpoint, ticks = begun(log, folder, "a/CTAS_O_0")
    with Program(log, settings, name="a"), pytest.raises(ProgramRunning):
        remove_checkpoint(log, checkpoint)
    assert (checkpoint.last_committed(), log.topic(ticks).name) == (1, ticks)


def test_an_interrupted_removal_is_completed(log: EmbeddedLog, folder: Path, settings: Settings) -> None:
    checkpoint, ticks = begun(log, folder, "a/CTAS_O_0")

    def dies(run: str) -> None:
        raise LogBusy(f"no time for {run}")

    with pytest.raises(LogBusy):
        checkpoint.remove(dies)
    assert list(describe_checkpoints(folder)) == []  # no query goes on with it
    assert log.topic(ticks)
    with Program(log, settings, name="a"), pytest.raises(UnknownTopic):
        log.topic(ticks)
    assert [path.name for path in (folder / "a").iterdir()] == ["program.lock"]
    finish_removals(folder / "a", internal_topic_remover(log))  # nothing is left to be done


def test_checkpoints_of_queries_that_the_script_no_longer_contains_are_found(
    log: EmbeddedLog, folder: Path, settings: Settings
) -> None:
    begun(log, folder, "a/CSAS_OLD_0")
    begun(log, folder, "a/CSAS_COPY_0")
    with Program(log, settings, name="a") as program:
        assert program.orphaned_checkpoints == []  # the script was not read yet
        program.execute(f"{CLICKS}CREATE STREAM copy AS SELECT * FROM clicks;\nPAUSE CSAS_COPY_0;")
        assert program.orphaned_checkpoints == ["CSAS_OLD_0"]
        program.execute("TERMINATE CSAS_COPY_0;")
        assert program.orphaned_checkpoints == ["CSAS_OLD_0"]
    assert [one.query for one in describe_checkpoints(folder)] == ["a/CSAS_OLD_0"]


class Nowhere:
    """Where no query ever runs."""

    isolates_failures: ClassVar[bool] = False
    needs_restart = False

    def warm_up(self, then: WarmUp | None = None) -> None: ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        raise LogBusy(query.id)

    def close(self) -> None: ...


def test_a_renumbered_statement_resumes_from_its_checkpoint(log: EmbeddedLog, folder: Path, settings: Settings) -> None:
    """Earlier statements were removed. Only the same statement resumes: a changed one starts over."""
    copy = "CREATE STREAM copy AS SELECT * FROM clicks;"
    for name, text in (("CSAS_COPY_3", copy), ("CSAS_COPY_4", "CREATE STREAM copy AS SELECT id FROM clicks;")):
        begun(log, folder, f"a/{name}")
        path = folder / "a" / name / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "query": name, "text": text}))
    with Program(log, settings, name="a", isolation=Nowhere()) as program, pytest.raises(LogBusy):
        program.execute(CLICKS + copy)
    assert [one.query for one in describe_checkpoints(folder)] == ["a/CSAS_COPY_0", "a/CSAS_COPY_4"]
    assert Checkpoint(folder / "a" / "CSAS_COPY_0").last_committed() == 1
