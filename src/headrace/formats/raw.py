"""The format `raw`: the whole payload is the value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.component import Component, register
from headrace.errors import BadRecord, BadSchema
from headrace.formats.contract import Decoded, Reject
from headrace.formats.values import valid_texts
from headrace.schema import Field, Schema


class RawRows:
    """For raw topics, and for schemas whose only column apart from the key is text or bytes."""

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded:
        target = _value_field(schema)
        good = np.arange(len(payloads))
        values = payloads
        rejects: list[Reject] = []
        if pa.types.is_string(target.type):
            values, bad = valid_texts(payloads)
            rejects = [Reject(int(i), BadRecord.code, "the payload is not UTF-8 text") for i in bad]
            good = np.setdiff1d(good, bad)
            values = values.take(pa.array(good))
        columns = [values if f is target else _filled(f, len(values)) for f in schema.fields]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema.arrow), good, rejects)

    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray:
        return rows.column(_value_field(schema).name).cast(pa.binary())


def _value_field(schema: Schema) -> Field:
    beside_key = [f for f in schema.fields if f.name not in schema.key]
    if len(beside_key) == 1 and beside_key[0].type in (pa.string(), pa.binary()):
        return beside_key[0]
    raise BadSchema(
        f'format "raw" does not support the columns: {schema}',
        fix='use format "json" or "csv", or declare one string or bytes column besides the key',
    )


def _filled(field: Field, count: int) -> pa.Array:
    return pa.array([field.default] * count, field.type)


register(Component("row format", "raw", "The whole payload is the value.", RawRows))
