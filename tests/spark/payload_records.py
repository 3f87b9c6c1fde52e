"""Payloads of rows for a raw topic, as records."""

from __future__ import annotations

from headrace.engine.io.row_payloads import payload_rows
from headrace.plan.analysis.record_layout import header_tuples
from headrace.plan.chain.records import RawRecord


def records_of(payload: bytes) -> list[RawRecord]:
    """The records that were packed as a payload."""
    rows = payload_rows(payload)
    keys, values, times = (rows.column(name).to_pylist() for name in ("key", "value", "$timestamp"))
    return list(map(RawRecord, keys, values, times, header_tuples(rows.column("$headers"))))
