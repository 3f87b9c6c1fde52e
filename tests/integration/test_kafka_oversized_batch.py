"""On Kafka a batch that is too large for a transaction is split, unless part of it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.engine.checkpoint import Checkpoint, writer_name
from headrace.engine.io.oversized_batch import discard_oversized_batch
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.ksql_strategies import planned

pytestmark = pytest.mark.kafka
QUERY = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")


@pytest.mark.parametrize(("rows", "written", "begun"), [(3, None, 0), (4, None, 1), (1, 0, 0), (1, 1, 1)])
def test_an_oversized_batch_is_split(
    log: KafkaLog, name: str, tmp_path: Path, rows: int, written: int | None, begun: int
) -> None:
    """Batch 0, of two records, is done; batch 1 has begun, with four."""
    log.create_topic(name)
    for _ in range(6):
        log.append([Append(name, from_records([Record(b"{}")]))])
    checkpoint = Checkpoint(tmp_path)
    manifest = checkpoint.open(QUERY, "record", 2, (name,))
    for kind, batches in (("offsets", {0: 2, 1: 6}), ("commits", {0: 0})):
        (checkpoint.spark / kind).mkdir(parents=True)
        for batch, end in batches.items():
            (checkpoint.spark / kind / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({name: {'0': end}})}")
    if written is not None:
        log.writer(writer_name(manifest.run)).append(written, [])
    discard_oversized_batch(log, checkpoint, manifest, [name], rows)
    assert (checkpoint.last_committed(), checkpoint.last_started()) == (0, begun)
