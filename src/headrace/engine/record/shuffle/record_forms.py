"""The forms in which a batch's records are sent: as they are in their topic, or decoded to columns where they are read.

Formats decode to columns what they can at once. Other records, and those that the chain must see as a record (since
they have headers, or would be refused), stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from headrace.contracts import Batch
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.plan.analysis.columnar import ColumnarDecoder, Mask, columnar_decoder


class RecordForm(NamedTuple):
    number: int
    """The number of the layout."""
    rows: pa.RecordBatch
    keys: pa.BinaryArray | None
    """The bytes of the keys in a raw topic."""


def record_forms(batch: Batch, spec: RecordTaskSpec) -> Iterator[RecordForm]:
    """All records of the batch, each in one of the forms."""
    number, columnar = spec.topics.index(batch.topic), _columnar_decoder(spec, batch.topic)
    keys = batch.rows.column("key") if spec.layouts[number].columns is None else None
    if columnar is None or len(batch) < spec.layouts[columnar[1]].fewest:
        yield RecordForm(number, spec.layouts[number].pack(batch), keys)
        return
    source, place = columnar
    batch_columns = source.decode(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
    decoded = batch_columns.decoded & _without_headers(batch)
    if source.key_width > 1:
        decoded &= batch_columns.keyed.to_numpy(zero_copy_only=False)  # null columns would be taken for a key
    if decoded.any():
        decoded_rows = _where(batch, decoded)
        yield RecordForm(
            place,
            spec.layouts[place].pack_columnar(decoded_rows, batch_columns.where(decoded)),
            decoded_rows.rows.column("key"),
        )
    if not decoded.all():
        others = _where(batch, ~decoded)
        yield RecordForm(number, spec.layouts[number].pack(others), others.rows.column("key"))


def _without_headers(batch: Batch) -> Mask:
    return batch.rows.column("$headers").is_null().to_numpy(zero_copy_only=False)


def _where(batch: Batch, mask: Mask) -> Batch:
    return batch if mask.all() else replace(batch, rows=batch.rows.filter(pa.array(mask)))


@lru_cache(256)
def _columnar_decoder(spec: RecordTaskSpec, topic: str) -> tuple[ColumnarDecoder, int] | None:
    """The decoder for the records of a topic, and the number of the layout of decoded records."""
    for place, layout in enumerate(spec.layouts):
        if layout.columnar and layout.topic == topic:
            (source,) = (source for source in spec.plan.sources if source.topic == topic)
            decoder = columnar_decoder(source)
            return None if decoder is None else (decoder, place)
    return None
