"""Records of a raw topic as the columns of the source that reads it, all at once where that is what its decoder gives.

Of a batch, records that cannot be read so, or that the decoder would refuse, are not `sure`: they go record by record,
and nothing else is reported of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.serde.columnar import Columnar, Read, columnar
from headrace.plan import types as ty
from headrace.plan.nodes import Format, Source
from headrace.schema import Field

Mask = npt.NDArray[np.bool_]
_TIMES = (ty.BIGINT, ty.TIMESTAMP)
_NO_TIME = -1
WORTH = 64
"""To open fewer records than this at once takes longer than one by one: single appends are batches of one record."""


@dataclass(frozen=True)
class Opened:
    """Columns by their declared names; what they hold where a record is not `sure` means nothing."""

    columns: dict[str, pa.Array]
    keyed: pa.BooleanArray
    valued: pa.BooleanArray
    times: pa.Int64Array
    """Of events, in ms."""
    sure: Mask

    def where(self, mask: Mask) -> Opened:
        if mask.all():
            return self
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        keyed, valued, times = (array.filter(mask) for array in (self.keyed, self.valued, self.times))
        return Opened(columns, keyed, valued, times, self.sure[mask])


def opener(source: Source) -> Opener | None:
    """None if the records of the source must be decoded one by one."""
    relation = source.relation
    if relation.window is not None or source.system or not relation.value:
        return None
    stamp = source.timestamp and relation.column(source.timestamp.column)
    if stamp and stamp.type not in _TIMES:
        return None
    key = _columnar(source.key_format, relation.key, is_key=True) if relation.key else None
    value = _columnar(source.value_format, relation.value, is_key=False)
    return None if value is None or (relation.key and key is None) else Opener(source, key, value)


def _columnar(form: Format, columns: tuple[Field, ...], *, is_key: bool) -> Columnar | None:
    return columnar(form.name, columns, is_key=is_key, wrapped=form.option("wrapped", True))


class Opener:
    """Opens batches of one source."""

    def __init__(self, source: Source, key: Columnar | None, value: Columnar) -> None:
        self._source, self._key, self._value = source, key, value
        self.key_width = len(source.relation.key)

    def opened(self, keys: pa.BinaryArray, values: pa.BinaryArray, times: pa.Int64Array) -> Opened:
        """Records with these times of their own."""
        relation = self._source.relation
        value = self._value.read(values)
        key = (
            self._key.read(keys)
            if self._key
            else Read([], pa.array(np.zeros(len(keys), bool)), np.ones(len(keys), bool))
        )
        names = [field.name for field in (*relation.key, *relation.value)]
        columns = dict(zip(names, [*key.columns, *value.columns], strict=True))
        opened = Opened(columns, key.there, value.there, times, key.read & value.read)
        told = self._told(opened)
        return replace(opened, times=told, sure=opened.sure & (told.to_numpy() >= 0))

    def _told(self, opened: Opened) -> pa.Int64Array:
        """The records' own times, or what a column says; a record without a payload keeps its own."""
        stamp = self._source.timestamp
        if stamp is None:
            return opened.times
        said = pc.fill_null(opened.columns[stamp.column].cast(pa.int64()), _NO_TIME)
        in_key = any(field.name == stamp.column for field in self._source.relation.key)
        return said if in_key else pc.if_else(opened.valued, said, opened.times)
