"""Only an oversized batch of which nothing was written is discarded and split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.engine.checkpoint import Checkpoint, Manifest, writer_name
from headrace.engine.io.oversized_batch import discard_oversized_batch
from headrace.errors import WriterFenced
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings
from tests.ksql_strategies import planned

QUERY = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        opened.create_topic("s")
        opened.create_topic("o")
        for _ in range(10):
            opened.append([Append("s", from_records([Record(b"{}")]))])
        yield opened


@pytest.fixture
def checkpoint(tmp_path: Path, log: EmbeddedLog) -> Checkpoint:
    """Batch 0, of two records, is done; batch 1 has begun, with all others."""
    made = Checkpoint(tmp_path / "q")
    made.open(QUERY, "record", 2, ("s",))
    ends = {0: log.cut(["s"], 0, 2), 1: log.head(["s"])}
    for kind, batches in (("offsets", (0, 1)), ("commits", (0,))):
        (made.spark / kind).mkdir(parents=True)
        for batch in batches:
            (made.spark / kind / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'sequence': ends[batch]})}")
            (made.spark / kind / f".{batch}.crc").write_bytes(b"crc")
    return made


def manifest(checkpoint: Checkpoint) -> Manifest:
    found = checkpoint.manifest
    assert found is not None
    return found


@pytest.mark.parametrize(("rows", "begun"), [(7, 0), (8, 1), (1000, 1)])
def test_an_oversized_batch_is_discarded(log: EmbeddedLog, checkpoint: Checkpoint, rows: int, begun: int) -> None:
    for _ in range(2):
        discard_oversized_batch(log, checkpoint, manifest(checkpoint), ["s"], rows)
        assert (checkpoint.last_committed(), checkpoint.last_started()) == (0, begun)
    names = {path.name for path in (checkpoint.spark / "offsets").iterdir()}
    assert names == {"0", ".0.crc"} | ({"1", ".1.crc"} if begun else set())


def test_a_committed_batch_is_never_discarded(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    writer = log.writer(writer_name(manifest(checkpoint).run))
    writer.append(1, [Append("o", from_records([Record(b"result")]))])
    discard_oversized_batch(log, checkpoint, manifest(checkpoint), ["s"], 1)
    assert checkpoint.last_started() == 1


def test_discarding_a_batch_fences_its_writer(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    before = log.writer(writer_name(manifest(checkpoint).run))
    discard_oversized_batch(log, checkpoint, manifest(checkpoint), ["s"], 1)
    with pytest.raises(WriterFenced):
        before.append(1, [Append("o", from_records([Record(b"result")]))])
    assert checkpoint.last_started() == 0


def test_discarding_the_first_batch_deletes_its_state(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    for path in (checkpoint.spark / "commits" / "0", checkpoint.spark / "offsets" / "1"):
        path.unlink()
    (checkpoint.spark / "state" / "0" / "0").mkdir(parents=True)
    discard_oversized_batch(log, checkpoint, manifest(checkpoint), ["s"], 1)
    assert (checkpoint.last_started(), (checkpoint.spark / "state").exists()) == (-1, False)
