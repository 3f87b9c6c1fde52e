"""A backup contains each checkpoint as of the last batch in the copied log, although queries go on meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.io.checkpoint_copy import copy_checkpoints
from headrace.engine.io.failing_batch import skipped_writer
from headrace.engine.query import prepare_query
from headrace.errors import CheckpointMissing
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.backup import backup, restore
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.unit.engine.test_recovery import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A query that has written two batches, with a snapshot of its state after each."""
    place = Place(tmp_path / "data", "COUNTS")
    place.prepare()
    for number in range(2):
        batch(place, number)
    return place


def batch(place: Place, number: int) -> None:
    place.batch(number)
    state = place.checkpoint.spark / "state" / "0" / "0"
    state.mkdir(parents=True, exist_ok=True)
    (state / f"{number + 1}.zip").write_bytes(b"%d" % number)


def backed_up(place: Place, folder: Path, meanwhile: Callable[[], None] = lambda: None) -> Checkpoint:
    """The checkpoint in a backup; `meanwhile` happens after the log was copied."""

    def also(*arguments: object) -> None:
        meanwhile()
        copy_checkpoints(*arguments)  # type: ignore[arg-type]

    backup(place.settings.storage.data, folder, also=also)
    return Checkpoint(folder / "checkpoints" / "program" / place.query.id)


def state_files(checkpoint: Checkpoint) -> set[str]:
    return {path.name for path in (checkpoint.spark / "state").rglob("*.zip")}


def test_a_restored_query_resumes_where_the_log_ends(place: Place, tmp_path: Path) -> None:
    copy = backed_up(place, tmp_path / "copy", lambda: batch(place, 2))
    assert (copy.last_committed(), copy.last_started(), state_files(copy)) == (1, 1, {"1.zip", "2.zip"})
    assert place.checkpoint.last_committed() == 2  # the original is as it was
    assert state_files(place.checkpoint) == {"1.zip", "2.zip", "3.zip"}
    restore(tmp_path / "copy", tmp_path / "new", also=copy_checkpoints)
    shutil.rmtree(tmp_path / "copy")
    settings = place.settings.replace(storage_data=tmp_path / "new")
    restored = tmp_path / "new" / "checkpoints" / "program" / place.query.id
    with closing(EmbeddedLog(tmp_path / "new", settings)) as log:
        prepared = prepare_query(log, place.query, settings, restored)
    assert (prepared.resumed, prepared.checkpoint.position()) == (True, place.position(2))


def test_a_batch_that_is_in_the_log_and_not_marked_as_done_is_repeated(place: Place, tmp_path: Path) -> None:
    (place.checkpoint.spark / "commits" / "1").unlink()
    copy = backed_up(place, tmp_path / "copy")
    assert (copy.last_committed(), copy.last_started()) == (0, 1)


def test_a_batch_that_is_not_in_the_log_is_not_in_the_copy(place: Place, tmp_path: Path) -> None:
    offsets = place.checkpoint.spark / "offsets"
    for name in ("2", ".2.crc"):
        shutil.copy(offsets / "1", offsets / name)
    (place.checkpoint.folder / "failing.json").write_text("{}")
    copy = backed_up(place, tmp_path / "copy")
    assert (copy.last_started(), {path.name for path in (copy.spark / "offsets").iterdir()}) == (1, {"0", "1"})
    assert not (copy.folder / "failing.json").exists()


def test_a_query_that_has_written_nothing_keeps_its_start(tmp_path: Path) -> None:
    place = Place(tmp_path / "data", "OUT")
    prepared = prepare_query(place.log, place.query, place.settings, place.folder, place.position(7))
    prepared.log_adapter.committer(prepared.manifest.run, place.folder, place.query)
    copy = backed_up(place, tmp_path / "copy", lambda: batch(place, 0))
    assert copy.manifest is not None
    assert (copy.manifest.start, copy.last_started()) == (place.position(7), -1)
    assert not copy.spark.exists()


def test_a_checkpoint_that_cannot_be_cut_back_is_left_out_and_waits_for_a_decision(
    place: Place, tmp_path: Path
) -> None:
    def run_on() -> None:
        for number in range(2, 18):
            batch(place, number)

    def leave_out() -> None:
        with closing(place.log.writer(skipped_writer(run))) as writer:
            writer.append(0, [Append("s", from_records([Record(b"dead")]))])
        (place.checkpoint.folder / "skipped.json").write_text('[{"topic": "s", "partition": 0, "offset": 2}]')

    manifest = place.checkpoint.manifest
    assert manifest is not None
    run = manifest.run
    assert not backed_up(place, tmp_path / "skipped", leave_out).folder.exists()
    assert backed_up(place, tmp_path / "again").last_committed() == 1  # now the log has its dead letter
    copy = backed_up(place, tmp_path / "far", run_on)
    assert not copy.folder.exists()
    settings = place.settings.replace(storage_data=tmp_path / "far")
    with closing(EmbeddedLog(tmp_path / "far", settings)) as log, pytest.raises(CheckpointMissing):
        prepare_query(log, place.query, settings, copy.folder)


def test_links_in_a_checkpoint_are_not_followed(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (place.checkpoint.spark / "state" / "link").symlink_to(tmp_path / "secret")
    (place.checkpoint.spark / "state" / "folder").symlink_to(tmp_path)
    copy = backed_up(place, tmp_path / "copy")
    assert copy.last_committed() == 1
    assert {path.name for path in (copy.spark / "state").iterdir()} == {"0"}
