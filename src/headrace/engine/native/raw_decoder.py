"""Decodes records of a raw topic to columns of a frame: all at once where the formats can, else through their serdes.

What cannot be decoded at once is decoded record by record, which also reports what is wrong with it. Rows keep their
order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Batch
from headrace.engine.native.header_codec import pack_headers
from headrace.engine.native.schema_match import to_column_type
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.sparksql.serde import row_arrays, row_columns
from headrace.plan.analysis.columnar import MIN_COLUMNAR_RECORDS, ColumnarBatch, ColumnarDecoder, columnar_decoder
from headrace.plan.analysis.record_layout import raw_records
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import Decoder
from headrace.schema import Field

Columns = dict[str, pa.Array]
_OWN = ("time", "keyed", "valued")


def decode_raw(batch: Batch, work: NativeTaskSpec) -> tuple[Columns, list[Problem]]:
    """Columns by name, of the rows that could be decoded, and the problems of the others."""
    source = _opener(work) if len(batch) >= MIN_COLUMNAR_RECORDS else None
    opened = source and source.opened(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
    if opened is None or not opened.sure.any():
        return one_by_one(batch, work)
    if opened.sure.all():
        return _at_once(opened, batch, work), []
    sure = _at_once(opened.where(opened.sure), _some(batch, opened.sure), work)
    others, problems = one_by_one(_some(batch, ~opened.sure), work)
    return _in_order(sure, others) if len(others["time"]) else sure, problems


def _at_once(opened: ColumnarBatch, batch: Batch, work: NativeTaskSpec) -> Columns:
    fields = _fields(work)
    columns = {name: to_column_type(opened.columns[field.name], field.type) for name, field in fields.items()}
    columns |= {"time": opened.times, "keyed": opened.keyed, "valued": opened.valued}
    return columns | _envelope(batch, work)


def one_by_one(batch: Batch, work: NativeTaskSpec) -> tuple[Columns, list[Problem]]:
    """Decodes through the serdes: columnar decoding must give the same result."""
    decoder, relation = _decoder(work), work.source.relation
    made = [decoder.decode(record) for record in raw_records(batch)]
    problems = [event for event in made if isinstance(event, Problem)]
    events = [event for event in made if not isinstance(event, Problem)]
    good = np.array([not isinstance(event, Problem) for event in made], bool)
    arrays = dict(zip(row_columns(relation), row_arrays(events, relation), strict=True))
    columns = {name: arrays[name] for name in (*_fields(work), *_OWN)}
    return columns | _envelope(_some(batch, good), work), problems


def _fields(work: NativeTaskSpec) -> dict[str, Field]:
    """All fields of the source, by the frame's columns: also those not read, since a dead letter shows them."""
    relation = work.source.relation
    return {
        f"{letter}{i}": f for letter, those in (("k", relation.key), ("v", relation.value)) for i, f in enumerate(those)
    }


def _some(batch: Batch, mask: npt.NDArray[np.bool_]) -> Batch:
    return replace(batch, rows=batch.rows.filter(pa.array(mask)))


def _envelope(batch: Batch, work: NativeTaskSpec) -> Columns:
    columns = {"sequence": batch.rows.column("$sequence")}
    return columns | {"headers": pack_headers(batch.rows.column("$headers"))} if work.carries_headers else columns


def _in_order(sure: Columns, others: Columns) -> Columns:
    joined = {name: pa.concat_arrays([column, others[name]]) for name, column in sure.items()}
    order = pc.sort_indices(joined["sequence"])
    return {name: column.take(order) for name, column in joined.items()}


@lru_cache(64)
def _opener(work: NativeTaskSpec) -> ColumnarDecoder | None:
    return columnar_decoder(work.source)


@lru_cache(64)
def _decoder(work: NativeTaskSpec) -> Decoder:
    return Decoder(work.source)
