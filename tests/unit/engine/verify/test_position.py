"""Cuts of a query on Kafka become parts to read again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.contracts import Batch
from headrace.engine.io.kafka_source import Cut
from headrace.engine.verify import position
from headrace.engine.verify.recompute import LogReader
from headrace.settings import Settings

LARGE = 60_000


def cuts(*ends: int) -> list[Cut]:
    starts = [10, *ends[:-1]]
    return [
        Cut(n, {"a": {"0": start}}, {"a": {"0": end}, "b": {"0": 5}})
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def test_small_cuts_are_combined() -> None:
    parts = list(position._cut_parts(cuts(20, LARGE, 2 * LARGE, 3 * LARGE, 3 * LARGE + 1)))
    assert [[(piece.start, piece.end) for piece in part if piece.topic == "a"] for part in parts] == [
        [(10, 2 * LARGE)],
        [(2 * LARGE, 3 * LARGE + 1)],
    ]
    assert parts[0][1] == position.OffsetRange("b", 0, 0, 5)


def test_records_that_were_left_out_are_not_read() -> None:
    first, *_, last = cuts(20, 30, 40)
    parts = list(position._cut_parts([first, Cut(1, {"a": {"0": 21}, "b": {"0": 5}}, {"a": {"0": 30}}), last]))
    assert [[(piece.start, piece.end) for piece in part if piece.topic == "a"] for part in parts] == [
        [(10, 20)],
        [(21, 40)],
    ]


def test_rows_are_assigned_to_their_batch() -> None:
    made = cuts(20, 20, 30)
    reading = LogReader(Settings(), ends=position._ends_of(made))
    rows = pa.RecordBatch.from_pydict({"$offset": np.array([10, 19, 20, 29]), "$sequence": pa.nulls(4, pa.int64())})
    numbered = reading.with_sequences(Batch("a", 0, rows, 30))
    assert numbered.rows.column("$sequence").to_pylist() == [0, 0, 2, 2]
