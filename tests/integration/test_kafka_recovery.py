"""On Kafka, too, a query whose checkpoint is gone or outdated is refused until somebody decides how it continues."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.control.admin.checkpoints import remove_checkpoint
from headrace.engine.checkpoint import writer_name
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.recovery import FROM_OUTPUT, REPROCESS, Decision, decide
from headrace.errors import CheckpointMissing, CheckpointOutdated, WriterFenced
from headrace.log.kafka import KafkaLog
from headrace.settings import Settings
from tests.unit.engine.test_recovery import Place

pytestmark = pytest.mark.kafka
TEXT = """
CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);
CREATE STREAM out WITH (kafka_topic='{name}.out', query_id='q{name}') AS SELECT * FROM s EMIT CHANGES;
"""


class KafkaPlace(Place):
    def __init__(self, folder: Path, name: str, kafka: Settings) -> None:
        self._kafka = kafka
        super().__init__(folder, name.upper(), TEXT.format(name=name))
        self.settings = kafka.replace(storage_data=folder)

    def open_log(self) -> Any:
        return KafkaLog(self._kafka)

    def batch(self, number: int) -> None:
        (first := self.checkpoint.spark / "sources" / "0").mkdir(parents=True, exist_ok=True)
        (first / "0").write_text(f"v1\n{json.dumps(self.position(0))}")
        super().batch(number)

    def position(self, rows: int) -> Mapping[str, Any]:
        return {self.source: {"0": rows}}


@pytest.fixture
def place(tmp_path: Path, name: str, kafka_settings: Settings) -> Iterator[KafkaPlace]:
    """A query that has written two batches."""
    place = KafkaPlace(tmp_path, name.replace("-", "_"), kafka_settings)
    with closing(place.log):
        place.prepare()
        for number in range(2):
            place.batch(number)
        yield place


def test_a_checkpoint_that_is_there_is_resumed(place: KafkaPlace) -> None:
    assert place.prepare() is None
    place.batch(2)
    (place.checkpoint.spark / "commits" / "2").unlink()  # written, but not marked as done
    assert place.prepare() is None


def test_a_query_without_its_checkpoint_is_refused_however_often_it_starts(place: KafkaPlace) -> None:
    shutil.rmtree(place.folder)
    for _ in range(2):
        with pytest.raises(CheckpointMissing, match="up to batch 1"):
            place.prepare()


def test_an_older_copy_of_a_checkpoint_is_refused_until_it_continues_after_its_output(
    place: KafkaPlace, tmp_path: Path
) -> None:
    shutil.copytree(place.folder, tmp_path / "copy")
    place.batch(2)
    shutil.rmtree(place.folder)
    shutil.copytree(tmp_path / "copy", place.folder)
    with pytest.raises(CheckpointOutdated, match="up to batch 2, but its checkpoint ends at batch 1"):
        place.prepare()
    decide(place.folder, Decision(FROM_OUTPUT))
    assert place.prepare() == {place.source: {"0": 3}}
    place.batch(0)
    assert place.prepare() == {place.source: {"0": 3}}  # decided once


def test_a_process_that_still_runs_the_query_is_fenced_by_the_decision(place: KafkaPlace) -> None:
    manifest = place.checkpoint.manifest
    assert manifest is not None
    zombie = place.log.writer(writer_name(manifest.run))
    shutil.rmtree(place.folder)
    decide(place.folder, Decision(FROM_OUTPUT))
    assert place.prepare() == {place.source: {"0": 2}}
    with pytest.raises(WriterFenced):
        zombie.append(9, [])


def test_reprocess_starts_over_into_an_emptied_output(place: KafkaPlace) -> None:
    shutil.rmtree(place.folder)
    decide(place.folder, Decision(REPROCESS))
    assert place.prepare() is None
    assert place.rows() == 0
    place.batch(0)
    assert place.prepare() is None


def test_a_checkpoint_that_was_removed_on_purpose_starts_over(place: KafkaPlace) -> None:
    remove_checkpoint(place.log, place.checkpoint)
    assert place.prepare() is None
    assert place.rows() == 2


def test_a_batch_and_what_is_known_of_it_are_one_transaction(place: KafkaPlace) -> None:
    adapter = log_adapter_for(place.log, place.settings)
    (own,) = [one for one in adapter.written() if one.topic == place.query.sink.topic]
    assert (own.batch, own.query, own.position) == (1, place.query.id, {place.source: {"0": 2}})
    committer = adapter.committer(own.run, place.folder, place.query)
    committer.commit(1, [])  # a repeat
    assert own in adapter.written()
