"""Filtering rows by headers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.contracts import HEADERS_TYPE, Batch
from headrace.log.header_filter import header_filter

HEADERS = [
    [("type", b"order"), ("zone", b"eu")],
    [("type", b"order")],
    None,
    [("type", b"bill"), ("type", b"order"), ("zone", b"eu")],
    [("type", b"order"), ("type", b"bill"), ("zone", b"eu")],
]


def matched(wanted: dict[str, Any], rows: pa.RecordBatch) -> list[bool]:
    return header_filter(wanted)(Batch("t", 0, rows, 0)).to_pylist()


def test_a_row_matches_if_the_last_header_of_each_name_has_the_value() -> None:
    shaped = [h and [{"name": name, "value": value} for name, value in h] for h in HEADERS]
    rows = pa.RecordBatch.from_pydict({"value": [b""] * 5, "$headers": pa.array(shaped, HEADERS_TYPE)})
    assert matched({"type": "order", "zone": b"eu"}, rows) == [True, False, False, True, False]
    assert matched({}, rows) == [True] * 5
    assert matched({"type": "order"}, rows.slice(3)) == [True, False]
    assert matched({"type": "order"}, rows.drop_columns(["$headers"])) == [False] * 5
    assert matched({"type": "order"}, rows.slice(0, 0)) == []
