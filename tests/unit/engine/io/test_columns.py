"""Arrow batches for Python are combined without losing, repeating or reordering rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.io import columns
from headrace.engine.io.columns import coalesce_batches


@given(sizes=st.lists(st.integers(0, 60_000), max_size=12))
def test_combining_batches_keeps_all_rows_in_order(sizes: list[int]) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    batches = [
        pa.RecordBatch.from_pydict({"n": pa.array(range(start, start + size), pa.int64())})
        for start, size in zip(starts, sizes, strict=True)
    ]
    pieces = list(coalesce_batches(batches))
    assert sum(map(len, pieces)) == sum(sizes)
    assert [n for piece in pieces for n in piece.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(len(piece) >= 100_000 for piece in pieces[:-1])
    assert all(len(piece) < 160_000 for piece in pieces)


def test_large_rows_are_not_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_PIECE_BYTES", 1_000)
    batches = [pa.RecordBatch.from_pydict({"b": [b"x" * 2_000]}) for _ in range(3)]
    assert [len(piece) for piece in coalesce_batches(batches)] == [1, 1, 1]
