"""Commits of a query's batches to Kafka: atomic, in order, and without leaving files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.contracts import TopicSpec, dead_letter_topic
from headrace.engine.io.kafka_sink import KafkaBatchCommitter
from headrace.engine.io.kafka_source import CutJournal
from headrace.engine.io.sink import Staged, staged_extents
from headrace.errors import QueryFailed, WriterFenced
from headrace.log.embedded.storage.extents import EncodedExtent
from headrace.log.kafka import KafkaLog
from tests.memory_and_spark import stored

pytestmark = pytest.mark.kafka
LARGE = 30_000  # rows that do not fit into what Spark collects


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns = {"key": [b"%d" % (n % 5) for n in numbers], "value": [b"%d" % n for n in numbers]}
    times = {"$timestamp": np.arange(start, start + count) + 1_000}
    return pa.RecordBatch.from_pydict({name: pa.array(column, pa.binary()) for name, column in columns.items()} | times)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint in which Spark has noted what some batches read."""
    for name, batches in (("sources/0", 1), ("offsets", 4)):
        (tmp_path / "spark" / name).mkdir(parents=True)
        for batch in range(batches):
            (tmp_path / "spark" / name / str(batch)).write_text(f"v1\n{json.dumps({'in': {'0': batch}})}")
    return tmp_path


@pytest.fixture
def topics(log: KafkaLog, name: str) -> list[str]:
    made = [name, dead_letter_topic(name)]
    for topic in made:
        log.create_topic(topic, TopicSpec(partitions=2))
    return made


def staged(outlet: KafkaBatchCommitter, topic: str, *pieces: pa.RecordBatch) -> list[Staged]:
    """As tasks do it."""
    known = outlet.topic(topic)
    made = staged_extents([(known, piece) for piece in pieces], outlet.staging)
    return [(found, partition, EncodedExtent(*fields)) for found, partition, *fields in made]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "staged").iterdir())


def values(log: KafkaLog, topic: str) -> list[int]:
    return [int(record.value or b"") for record in stored(log, topic)]


def test_all_staged_results_of_a_batch_are_one_transaction(
    log: KafkaLog, name: str, topics: list[str], folder: Path
) -> None:
    outlet = KafkaBatchCommitter(log, name, folder)
    batch = [
        *staged(outlet, topics[0], rows(0, 3), rows(3, LARGE)),
        *staged(outlet, topics[0], rows(3 + LARGE, LARGE)),
        *staged(outlet, topics[1], rows(0, 2)),
    ]
    assert len(files(folder)) == 4
    assert stored(log, topics[0]) == stored(log, topics[1]) == []
    outlet.commit(0, batch)
    found = [(record.key, int(record.value or b"")) for record in stored(log, topics[0])]
    for key in range(5):
        assert [value for at, value in found if at == b"%d" % key] == list(range(key, 3 + 2 * LARGE, 5))
    assert sorted(values(log, topics[1])) == [0, 1]
    assert [(cut.batch, cut.start, cut.end) for cut in CutJournal(log, name, folder / "spark").read()] == [
        (0, {"in": {"0": 0}}, {"in": {"0": 0}})
    ]
    assert (outlet.last, files(folder)) == (0, [])


def test_a_committed_batch_is_not_written_again(log: KafkaLog, name: str, topics: list[str], folder: Path) -> None:
    for _ in range(2):
        outlet = KafkaBatchCommitter(log, name, folder)
        outlet.commit(1, staged(outlet, topics[0], rows(0, LARGE)))
        assert (outlet.last, files(folder)) == (1, [])
    assert sorted(values(log, topics[0])) == list(range(LARGE))
    assert len(list(CutJournal(log, name, folder / "spark").read())) == 1


def test_staged_files_of_a_crash_are_removed_at_the_next_start(
    log: KafkaLog, name: str, topics: list[str], folder: Path
) -> None:
    before = KafkaBatchCommitter(log, name, folder)
    lost = staged(before, topics[0], rows(0, LARGE))
    assert files(folder)
    after = KafkaBatchCommitter(log, name, folder)
    assert files(folder) == []
    mine = staged(after, topics[0], rows(0, LARGE))
    for small in (lost, staged(before, topics[0], rows(0, 3))):
        with pytest.raises((WriterFenced, QueryFailed)):
            before.commit(0, small)
    after.commit(0, mine)
    assert sorted(values(log, topics[0])) == list(range(LARGE))


def test_missing_staged_files_abort_the_transaction(log: KafkaLog, name: str, topics: list[str], folder: Path) -> None:
    outlet = KafkaBatchCommitter(log, name, folder)
    batch = staged(outlet, topics[0], rows(0, 3), rows(3, LARGE))
    for file in files(folder):
        (folder / "staged" / file).unlink()
    with pytest.raises(QueryFailed, match="staged are missing"):
        outlet.commit(0, batch)
    assert stored(log, topics[0]) == []
    outlet.commit(0, staged(outlet, topics[0], rows(0, 3)))
    assert sorted(values(log, topics[0])) == [0, 1, 2]


def test_a_checkpoint_without_the_cut_is_refused(log: KafkaLog, name: str, topics: list[str], folder: Path) -> None:
    outlet = KafkaBatchCommitter(log, name, folder)
    with pytest.raises(QueryFailed, match="the cut of batch 4"):
        outlet.commit(4, staged(outlet, topics[0], rows(0, 3)))
    assert stored(log, topics[0]) == []
