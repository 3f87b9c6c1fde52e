"""Decodes records of a raw topic into the columns of its source, a batch at a time, where the decoder supports it.

Records of a batch that cannot be decoded this way, or that the decoder would reject, are not `decoded`: they are read
record by record, and are reported only there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.contract import ColumnBatch, ColumnReader
from headrace.plan import types as ty
from headrace.plan.chain.records import payload_format
from headrace.plan.nodes import Source
from headrace.plan.relations import Format
from headrace.schema import Field

Mask = npt.NDArray[np.bool_]
_TIMES = (ty.BIGINT, ty.TIMESTAMP)
_NO_TIME = -1
MIN_COLUMNAR_RECORDS = 64
"""Below this number of records, decoding by column is slower than by record: single appends are batches of one record.
"""


@dataclass(frozen=True)
class ColumnarBatch:
    """Columns by their declared names; the values of a record that is not `decoded` are meaningless."""

    columns: dict[str, pa.Array]
    keyed: pa.BooleanArray
    valued: pa.BooleanArray
    times: pa.Int64Array
    """Event times in ms."""
    decoded: Mask

    def where(self, mask: Mask) -> ColumnarBatch:
        if mask.all():
            return self
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        keyed, valued, times = (array.filter(mask) for array in (self.keyed, self.valued, self.times))
        return ColumnarBatch(columns, keyed, valued, times, self.decoded[mask])


def columnar_decoder(source: Source) -> ColumnarDecoder | None:
    """Returns the decoder of a source, or None if its records must be decoded one by one."""
    relation = source.relation
    if relation.window is not None or source.system or not relation.value:
        return None
    stamp = source.timestamp and relation.column(source.timestamp.column)
    if stamp and stamp.type not in _TIMES:
        return None
    key = _columnar(source.key_format, relation.key, is_key=True) if relation.key else None
    value = _columnar(source.value_format, relation.value, is_key=False)
    return None if value is None or (relation.key and key is None) else ColumnarDecoder(source, key, value)


def _columnar(form: Format, columns: tuple[Field, ...], *, is_key: bool) -> ColumnReader | None:
    return payload_format(form).column_reader(columns, is_key=is_key, wrapped=form.option("wrapped", True))


class ColumnarDecoder:
    """Decodes batches of one source."""

    def __init__(self, source: Source, key: ColumnReader | None, value: ColumnReader) -> None:
        self._source, self._key, self._value = source, key, value
        self.key_width = len(source.relation.key)

    def decode(self, keys: pa.BinaryArray, values: pa.BinaryArray, times: pa.Int64Array) -> ColumnarBatch:
        """Decodes records; `times` are their own timestamps."""
        relation = self._source.relation
        value = self._value.read(values)
        key = (
            self._key.read(keys)
            if self._key
            else ColumnBatch([], pa.array(np.zeros(len(keys), bool)), np.ones(len(keys), bool))
        )
        names = [field.name for field in (*relation.key, *relation.value)]
        columns = dict(zip(names, [*key.columns, *value.columns], strict=True))
        batch = ColumnarBatch(columns, key.present, value.present, times, key.read & value.read)
        event_times = self._event_times(batch)
        return replace(batch, times=event_times, decoded=batch.decoded & (event_times.to_numpy() >= 0))

    def _event_times(self, batch: ColumnarBatch) -> pa.Int64Array:
        """Returns the event times: the records' own, or those of the timestamp column. A record without a payload keeps
        its own.
        """
        stamp = self._source.timestamp
        if stamp is None:
            return batch.times
        stated = pc.fill_null(batch.columns[stamp.column].cast(pa.int64()), _NO_TIME)
        in_key = any(field.name == stamp.column for field in self._source.relation.key)
        return stated if in_key else pc.if_else(batch.valued, stated, batch.times)
