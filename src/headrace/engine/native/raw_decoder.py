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
from headrace.engine.sparksql.frames import row_arrays, row_columns
from headrace.plan.analysis.columnar import MIN_COLUMNAR_RECORDS, ColumnarBatch, ColumnarDecoder, columnar_decoder
from headrace.plan.analysis.record_layout import raw_records
from headrace.plan.chain.records import Decoder
from headrace.plan.steps import Problem
from headrace.schema import Field

Columns = dict[str, pa.Array]
_ROW_COLUMNS = ("time", "keyed", "valued")


def decode_raw(batch: Batch, spec: NativeTaskSpec) -> tuple[Columns, list[Problem]]:
    """Columns by name, of the rows that could be decoded, and the problems of the others."""
    source = _columnar_decoder(spec) if len(batch) >= MIN_COLUMNAR_RECORDS else None
    decoded = source and source.decode(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
    if decoded is None or not decoded.decoded.any():
        return one_by_one(batch, spec)
    if decoded.decoded.all():
        return _decode_columns(decoded, batch, spec), []
    columnar = _decode_columns(decoded.where(decoded.decoded), _where(batch, decoded.decoded), spec)
    others, problems = one_by_one(_where(batch, ~decoded.decoded), spec)
    return _merge_in_order(columnar, others) if len(others["time"]) else columnar, problems


def _decode_columns(decoded: ColumnarBatch, batch: Batch, spec: NativeTaskSpec) -> Columns:
    fields = _fields(spec)
    columns = {name: to_column_type(decoded.columns[field.name], field.type) for name, field in fields.items()}
    columns |= {"time": decoded.times, "keyed": decoded.keyed, "valued": decoded.valued}
    return columns | _envelope(batch, spec)


def one_by_one(batch: Batch, spec: NativeTaskSpec) -> tuple[Columns, list[Problem]]:
    """Decodes through the serdes: columnar decoding must give the same result."""
    decoder, relation = _decoder(spec), spec.source.relation
    decoded = [decoder.decode(record) for record in raw_records(batch)]
    problems = [event for event in decoded if isinstance(event, Problem)]
    events = [event for event in decoded if not isinstance(event, Problem)]
    good = np.array([not isinstance(event, Problem) for event in decoded], bool)
    arrays = dict(zip(row_columns(relation), row_arrays(events, relation), strict=True))
    columns = {name: arrays[name] for name in (*_fields(spec), *_ROW_COLUMNS)}
    return columns | _envelope(_where(batch, good), spec), problems


def _fields(spec: NativeTaskSpec) -> dict[str, Field]:
    """All fields of the source, by the frame's columns: also those not read, since a dead letter shows them."""
    relation = spec.source.relation
    return {
        f"{prefix}{i}": f for prefix, those in (("k", relation.key), ("v", relation.value)) for i, f in enumerate(those)
    }


def _where(batch: Batch, mask: npt.NDArray[np.bool_]) -> Batch:
    return replace(batch, rows=batch.rows.filter(pa.array(mask)))


def _envelope(batch: Batch, spec: NativeTaskSpec) -> Columns:
    columns = {"sequence": batch.rows.column("$sequence")}
    return columns | {"headers": pack_headers(batch.rows.column("$headers"))} if spec.carries_headers else columns


def _merge_in_order(columnar: Columns, others: Columns) -> Columns:
    joined = {name: pa.concat_arrays([column, others[name]]) for name, column in columnar.items()}
    order = pc.sort_indices(joined["sequence"])
    return {name: column.take(order) for name, column in joined.items()}


@lru_cache(64)
def _columnar_decoder(spec: NativeTaskSpec) -> ColumnarDecoder | None:
    return columnar_decoder(spec.source)


@lru_cache(64)
def _decoder(spec: NativeTaskSpec) -> Decoder:
    return Decoder(spec.source)
