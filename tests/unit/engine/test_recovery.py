"""A query whose checkpoint is gone or outdated is refused until somebody decides how it continues."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import Append
from headrace.control.admin.checkpoints import internal_topic_remover, remove_checkpoint
from headrace.engine.checkpoint import Checkpoint, finish_removals, writer_name
from headrace.engine.io.embedded_source import EmbeddedStreamReader, source_options
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.query import prepare_query
from headrace.engine.recovery import FROM_OUTPUT, REPROCESS, Decision, decide
from headrace.errors import (
    CheckpointAhead,
    CheckpointMissing,
    CheckpointOutdated,
    HeadraceError,
    NotResumable,
    OffsetLost,
    StateUnreadable,
    WriterFenced,
)
from headrace.lang.ksql.grammar.parser import read_statements
from headrace.lang.ksql.statements.planner import Planner
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.record import Record
from headrace.settings import Settings

TEXT = """
CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', format='JSON', partitions=1);
CREATE STREAM out AS SELECT * FROM s EMIT CHANGES;
CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


class Place:
    """A data folder, its log, and a query whose batches are written by hand."""

    def __init__(self, folder: Path, query: str, text: str = TEXT) -> None:
        self.settings = Settings.of(storage_data=folder)
        self.log = self.open_log()
        catalog = Catalog()
        for reading in read_statements(text, {}):
            assert reading.statement is not None
            Planner(catalog).plan(reading.statement)
        self.query: Query = next(one for name, one in catalog.queries.items() if query in name)
        self.source = self.query.sources[0].topic
        for topic in (self.source, self.query.sink.topic):
            self.log.create_topic(topic)
        self.folder = folder / "checkpoints" / "program" / self.query.id

    def open_log(self) -> Any:
        return EmbeddedLog(self.settings.storage.data, self.settings)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.folder)

    def prepare(self) -> Mapping[str, Any] | None:
        """Prepares the query; returns the position at which it starts."""
        return prepare_query(self.log, self.query, self.settings, self.folder).manifest.start

    def batch(self, number: int) -> None:
        """Does what Spark does for a batch: stores its offsets, commits its results, and marks it as done."""
        manifest = self.checkpoint.manifest
        assert manifest is not None
        for kind in ("offsets", "commits"):
            (self.checkpoint.spark / kind).mkdir(parents=True, exist_ok=True)
        offsets = json.dumps(self.position(number + 1))
        (self.checkpoint.spark / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offsets}")
        committer = log_adapter_for(self.log, self.settings).committer(manifest.run, self.folder, self.query)
        committer.commit(number, [])
        self.log.append([Append(self.query.sink.topic, from_records([Record(b"row")]))])
        (self.checkpoint.spark / "commits" / str(number)).write_text("v1\n{}")

    def position(self, rows: int) -> Mapping[str, Any]:
        """The source's position after so many rows."""
        return {"sequence": rows, "removed": 0}

    def claim(self, position: int) -> None:
        """Lets the checkpoint say that it has read up to a position."""
        path = self.checkpoint.spark / "offsets" / str(self.checkpoint.last_committed())
        path.write_text(f"v1\n{{}}\n{json.dumps(self.position(position))}")

    def start_partitions(self) -> Sequence[Any]:
        """What the tasks of its first batch read, after a start that prepares it."""
        start = log_adapter_for(self.log, self.settings).start_option(self.prepare(), [])
        options = source_options(self.settings.storage.data, ["s"], None, start)
        reader = EmbeddedStreamReader(options, [self.log.topic("s")], None)
        begin = reader.initialOffset()
        return reader.partitions(begin, {**begin, "sequence": max(begin["sequence"], self.log.head(["s"]))})

    def rows(self) -> int:
        return sum(bounds.end - bounds.start for bounds in self.log.bounds(self.query.sink.topic).values())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A stateless query that has written two batches."""
    return begun(tmp_path, "OUT")


def begun(folder: Path, query: str) -> Place:
    place = Place(folder, query)
    place.prepare()
    for number in range(2):
        place.batch(number)
    return place


def test_a_checkpoint_that_is_there_is_resumed(place: Place) -> None:
    assert place.prepare() is None
    place.batch(2)
    assert place.prepare() is None


def test_a_query_without_its_checkpoint_is_refused_however_often_it_starts(place: Place) -> None:
    shutil.rmtree(place.folder)
    for _ in range(2):
        with pytest.raises(CheckpointMissing, match="up to batch 1") as refused:
            place.prepare()
        assert f"state recover program/{place.query.id} --reprocess" in (refused.value.fix or "")
        assert "--resume-from-output" in (refused.value.fix or "")
        assert not place.folder.exists()


def test_an_older_copy_of_a_checkpoint_is_refused(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.folder, tmp_path / "copy")
    place.batch(2)
    shutil.rmtree(place.folder)
    shutil.copytree(tmp_path / "copy", place.folder)
    with pytest.raises(CheckpointOutdated, match="up to batch 2, but its checkpoint ends at batch 1"):
        place.prepare()
    decide(place.folder, Decision(FROM_OUTPUT))
    assert place.prepare() == {"sequence": 3, "removed": 0}


def test_a_checkpoint_that_is_ahead_of_the_log_is_refused(place: Place) -> None:
    place.claim(1_000)
    with pytest.raises(CheckpointAhead, match="the log is an older copy"):
        place.prepare()


def test_a_batch_that_was_written_but_not_marked_as_done_is_repeated(place: Place) -> None:
    place.batch(2)
    (place.checkpoint.spark / "commits" / "2").unlink()
    assert place.prepare() is None


def test_resume_from_output_continues_after_the_last_batch(place: Place) -> None:
    run = place.checkpoint.manifest.run  # type: ignore[union-attr]
    zombie = place.log.writer(writer_name(run))
    shutil.rmtree(place.folder)
    decide(place.folder, Decision(FROM_OUTPUT))
    assert place.prepare() == {"sequence": 2, "removed": 0}
    assert place.rows() == 2
    with pytest.raises(WriterFenced):
        zombie.append(9, [])
    place.batch(0)
    assert place.prepare() == {"sequence": 2, "removed": 0}  # decided once
    shutil.rmtree(place.folder)
    with pytest.raises(CheckpointMissing):
        place.prepare()


def test_rows_after_the_output_that_retention_has_removed_are_lost(place: Place) -> None:
    shutil.rmtree(place.folder)
    decide(place.folder, Decision(FROM_OUTPUT))
    assert place.start_partitions() == []
    for _ in range(4):
        place.log.append([Append("s", from_records([Record(b"{}")]))])
    place.log.truncate("s", 0, 1)
    with pytest.raises(OffsetLost, match="read up to position 2"):
        place.start_partitions()


def test_rows_removed_before_a_query_began_are_not_lost(tmp_path: Path) -> None:
    place = Place(tmp_path, "OUT")
    for _ in range(4):
        place.log.append([Append("s", from_records([Record(b"{}")]))])
    place.log.truncate("s", 0, 2)
    assert len(place.start_partitions()) == 1


def test_reprocess_starts_over_into_an_emptied_output(place: Place) -> None:
    shutil.rmtree(place.folder)
    decide(place.folder, Decision(REPROCESS))
    assert place.prepare() is None
    assert place.rows() == 0
    place.batch(0)
    assert place.prepare() is None
    assert place.rows() == 1


def test_a_query_with_state_does_not_resume_from_its_output(tmp_path: Path) -> None:
    place = begun(tmp_path, "COUNTS")
    shutil.rmtree(place.folder)
    with pytest.raises(CheckpointMissing) as refused:
        place.prepare()
    assert "--resume-from-output" not in (refused.value.fix or "")
    decide(place.folder, Decision(FROM_OUTPUT))
    with pytest.raises(NotResumable, match="has state"):
        place.prepare()
    decide(place.folder, Decision(REPROCESS))
    assert place.prepare() is None


def test_a_checkpoint_that_was_removed_on_purpose_starts_over(place: Place) -> None:
    remove_checkpoint(place.log, place.checkpoint)
    assert place.prepare() is None
    assert place.rows() == 2


def test_a_recreated_or_emptied_output_needs_no_decision(place: Place) -> None:
    shutil.rmtree(place.folder)
    place.log.truncate(place.query.sink.topic, 0, 2)
    assert place.prepare() is None


def test_the_checkpoint_of_another_program_is_not_gone(place: Place) -> None:
    other = place.folder.parent.parent / "other" / place.query.id
    assert prepare_query(place.log, place.query, place.settings, other).manifest.start is None


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("decision", [REPROCESS, FROM_OUTPUT])
def test_a_decision_is_carried_out_after_a_crash_at_any_step(
    decision: str, is_gone: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_gone:
        shutil.rmtree(place.folder)
    decide(place.folder, Decision(decision))
    for step in ("_remove_checkpoint", "_forget_runs"):
        with monkeypatch.context() as crash:
            crash.setattr(f"headrace.engine.recovery.QueryRecovery.{step}", _killed)
            with pytest.raises(KeyboardInterrupt):
                place.prepare()
        finish_removals(place.folder.parent, internal_topic_remover(place.log))  # a server that starts again
    place.prepare()
    assert place.rows() == (0 if decision == REPROCESS else 2)
    assert place.checkpoint.manifest.start == (None if decision == REPROCESS else {"sequence": 2, "removed": 0})  # type: ignore[union-attr]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"v1"])
@pytest.mark.parametrize("file", ["spark/offsets/1", "spark/commits/1", "spark/metadata", "manifest.json"])
def test_a_damaged_checkpoint_is_named_with_its_cures(file: str, content: bytes, place: Place) -> None:
    path = place.folder / file
    path.write_bytes(content)
    with pytest.raises(StateUnreadable) as refused:
        place.prepare()
    assert place.query.id in refused.value.what or str(path) == refused.value.where
    assert f"program/{place.query.id} --reprocess" in (refused.value.fix or "")
    decide(place.folder, Decision(REPROCESS))
    assert place.prepare() is None
    assert place.rows() == 0


def test_an_unreadable_decision_is_none(place: Place) -> None:
    shutil.rmtree(place.folder)
    decide(place.folder, Decision("nonsense"))
    with pytest.raises(HeadraceError, match="checkpoint is gone"):
        place.prepare()
