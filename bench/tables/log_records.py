"""The records of table `log`: created beforehand from a fixed seed, the same for every side.

Values are short JSON texts, half repeating and half random, so compression finds about what it finds in real events.
A pool of records is created once and used repeatedly, so that creating them is not measured.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from bench.harness.case import Work

POOL = 100_000
_KEYS = 10_000


def records(count: int, value_bytes: int, seed: int = 7) -> list[tuple[bytes, bytes]]:
    """`count` pairs of key and value."""
    source = random.Random(seed)
    return [_record(i, source, value_bytes) for i in range(count)]


def _record(i: int, source: random.Random, value_bytes: int) -> tuple[bytes, bytes]:
    key = b"u%05d" % source.randrange(_KEYS)
    head = b'{"id":%09d,"user":"%b","price":%07d,"note":"' % (i, key, source.randrange(10_000_000))
    note = source.randbytes(value_bytes // 2).hex().encode()
    return key, (head + note)[: value_bytes - 2] + b'"}'


def pool(work: Work) -> list[tuple[bytes, bytes]]:
    """The pool of a case: never more records than the case has."""
    return records(min(POOL, max(work["records"], work["batch_rows"])), work["value_bytes"])


def batches(pairs: Sequence[tuple[bytes, bytes]], rows: int) -> list[pa.RecordBatch]:
    """The same records as Arrow batches of a raw topic; a last part that fills no batch is left out."""
    starts = range(0, len(pairs) - rows + 1, rows)
    return [batch(pairs[start : start + rows]) for start in starts]


def batch(pairs: Sequence[tuple[bytes, bytes]]) -> pa.RecordBatch:
    keys, values = zip(*pairs, strict=True)
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
