"""The record way: plans as streaming queries, cut into batches and stopped in between, beside the same in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import streams
from tests.spark.scenes import SCENES

_CHOSEN = ("select", "count", "tumbling", "enrich")


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene.name in _CHOSEN], ids=lambda scene: scene.name)
def test_a_program_writes_what_memory_writes(scene, spark: SparkSession, tmp_path: Path) -> None:
    half = len(scene.inputs) // 2
    pieces = [scene.inputs[:half], scene.inputs[half:]]
    found = streams.on_spark(scene.statements, pieces, tmp_path)
    wanted = streams.in_memory(scene.statements, scene.inputs)
    assert {topic: streams.by_key(records) for topic, records in found.items()} == {
        topic: streams.by_key(records) for topic, records in wanted.items()
    }
