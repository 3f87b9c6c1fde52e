"""Positions on Kafka, partition by partition."""

from __future__ import annotations

from pathlib import Path

from headrace.contracts import TopicSpec
from headrace.engine.io.batch_cuts import KafkaCuts
from headrace.log.embedded import EmbeddedLog


def test_a_partition_that_was_added_since_a_position_ends_where_it_starts(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t", TopicSpec(partitions=2))
        cuts = KafkaCuts(log)
        assert cuts.earlier({"t": {"0": 9, "1": 5}}, {"t": {"0": 7}}) == {"t": {"0": 7, "1": 0}}
        assert cuts.earlier({"t": {"0": 9, "1": 5}}, {}) == {"t": {"0": 0, "1": 0}}
        assert cuts.earlier({"t": {"0": 9, "1": 5}}, {"t": {"0": 7, "1": 6}}) == {"t": {"0": 7, "1": 5}}
