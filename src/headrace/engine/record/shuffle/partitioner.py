"""Assigns records to key groups, and sends the stream time to every key group.

A key group's rows are sent as one payload. Its last byte says what it is: the number of the topic's layout, `TWO_FORMS`
if it contains two payloads (see `record_forms`), or `CLOCK`. A clock says how the records of this batch advance stream
time: the positions in the order of arrival at which it rises, and the new times. Every key group gets it, so that all
close their windows at the same moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Batch
from headrace.engine.record.shuffle.key_group_ids import key_group_ids
from headrace.engine.record.shuffle.record_forms import RecordForm, record_forms
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.plan.analysis.partitioning import KeyGroupAssigner, key_group_assigner, key_group_of
from headrace.plan.analysis.record_layout import RecordLayout

CLOCK = 255
TWO_FORMS = 254
SHUFFLE_SCHEMA = pa.schema([("page", pa.int32()), ("payload", pa.binary())])
SHUFFLE_SPARK_SCHEMA = "page int, payload binary"

Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.zeros(0, np.int64)


def partition_batch(batch: Batch, spec: RecordTaskSpec) -> pa.RecordBatch:
    """A batch of a topic as one row for each key group that it concerns, and one for its clock."""
    parts_of: defaultdict[int, list[bytes]] = defaultdict(list)
    clocks: list[bytes] = []
    for form in record_forms(batch, spec):
        parts, clock = _partition(form, spec)
        clocks += [clock] if clock else []
        for key_group, part in parts:
            parts_of[key_group].append(part.serialize().to_pybytes() + bytes([form.number]))
    payloads = [(key_group, join_payloads(parts)) for key_group, parts in parts_of.items()]
    payloads += [(key_group, clock) for clock in clocks for key_group in range(spec.key_groups)]
    numbers = key_group_ids(spec.key_groups)
    columns = [
        pa.array([numbers[key_group] for key_group, _ in payloads], pa.int32()),
        pa.array([data for _, data in payloads], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SHUFFLE_SCHEMA)


def _partition(form: RecordForm, spec: RecordTaskSpec) -> tuple[list[tuple[int, pa.RecordBatch]], bytes]:
    """The rows by key group, and the clock."""
    layout = spec.layouts[form.number]
    if spec.key_groups == 1 or layout.topic == spec.ticks:
        return [(key_group, form.rows) for key_group in range(spec.key_groups)] if form.rows.num_rows else [], b""
    assignment = _assign(form, layout, spec)
    parts = [
        (int(key_group), form.rows.filter(pa.array(assignment.key_groups == key_group)))
        for key_group in np.unique(assignment.key_groups)
    ]
    return parts, b"" if plan_assigner(spec).lateness is None else assignment.clock


def join_payloads(parts: list[bytes]) -> bytes:
    """Joins payloads: records of one batch that are sent in two forms keep their order if they stay together."""
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return first + second + len(first).to_bytes(8, "big") + bytes([TWO_FORMS])


def split_payload(payload: bytes) -> list[bytes]:
    if payload[-1] != TWO_FORMS:
        return [payload]
    cut = int.from_bytes(payload[-9:-1], "big")
    return [payload[:cut], payload[cut:-9]]


@dataclass(frozen=True)
class KeyGroupAssignment:
    """The key group of each record and, for those that meet state there, their positions and times."""

    key_groups: npt.NDArray[np.int32]
    sequences: Numbers
    times: Numbers

    @property
    def clock(self) -> bytes:
        """How the records advance stream time; empty if there are none."""
        sequences, times = _rises(self.sequences, self.times)
        return np.stack([sequences, times]).tobytes() + bytes([CLOCK]) if len(times) else b""


def _assign(form: RecordForm, layout: RecordLayout, spec: RecordTaskSpec) -> KeyGroupAssignment:
    assigner, table = (
        (columnar_assigner if layout.columnar else plan_assigner)(spec),
        pa.Table.from_batches([form.rows]),
    )
    plain, find = assigner.plain.get(layout.topic), assigner.finders.get(layout.topic)
    if plain is not None and layout.columns is not None:
        return _by_columns(table, [layout.column_of(name) for name in plain], spec.key_groups, nulls=assigner.nulls)
    if find is None:  # stateless: records with the same key belong together
        keys = [record.key for record in layout.records(table)] if form.keys is None else form.keys.to_pylist()
        return KeyGroupAssignment(
            np.array([key_group_of(key, spec.key_groups) for key in keys], np.int32), _NONE, _NONE
        )
    matches = [find(record) for record in layout.records(table)]
    key_groups = np.array([key_group_of(one and one[1], spec.key_groups) for one in matches], np.int32)
    reaching = [(i, one[0]) for i, one in enumerate(matches) if one and _reaches_state(one[1], assigner)]
    where = np.array([i for i, _ in reaching], np.int64)
    return KeyGroupAssignment(
        key_groups, arrival_sequences(table)[where], np.array([time for _, time in reaching], np.int64)
    )


def _reaches_state(key: Any, assigner: KeyGroupAssigner) -> bool:
    """Whether a row with this key counts where it meets state; without a payload it has none."""
    return key is not None and (assigner.nulls or None not in key)


def _by_columns(rows: pa.Table, names: Sequence[str], key_groups: int, *, nulls: bool) -> KeyGroupAssignment:
    """Assigns equal keys to the same key group; each distinct key is hashed once."""
    present = pc.fill_null(pc.invert(rows["$deleted"]), True)
    for name in () if nulls else names:
        present = pc.and_(present, pc.is_valid(rows[name]))
    reaching = present.to_numpy()
    assigned = _key_groups_of(rows.select(names).combine_chunks(), key_groups)
    return KeyGroupAssignment(assigned, arrival_sequences(rows)[reaching], rows["time"].to_numpy()[reaching])


def _key_groups_of(keys: pa.Table, key_groups: int) -> npt.NDArray[np.int32]:
    if keys.num_columns == 1:
        encoded = keys.column(0).combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = [key_group_of((value,), key_groups) for value in encoded.dictionary.to_pylist()]
        return np.array(numbers, np.int32)[encoded.indices.to_numpy(zero_copy_only=False)]
    every = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    key_group_by_key = {key: key_group_of(key, key_groups) for key in set(every)}
    return np.array([key_group_by_key[key] for key in every], np.int32)


# -- time -----------------------------------------------------------------------------------------------------------


def arrival_sequences(rows: pa.Table) -> Numbers:
    """Positions in the order of arrival. Kafka has none: a batch is ordered by time, so no row is late within it."""
    return pc.fill_null(rows["sequence"], 0).to_numpy()


def _rises(sequences: Numbers, times: Numbers) -> tuple[Numbers, Numbers]:
    """Only the positions where the latest time so far rises."""
    order = np.argsort(sequences, kind="stable")
    sequences, times = sequences[order], np.maximum.accumulate(times[order]) if len(times) else times
    rises = np.concatenate([[True], times[1:] > times[:-1]]) if len(times) else np.zeros(0, bool)
    return sequences[rises], times[rises]


class StreamTime:
    """The time of the whole stream at every position of a batch."""

    def __init__(self, clocks: Sequence[bytes]) -> None:
        pieces = [np.frombuffer(data[:-1], np.int64).reshape(2, -1) for data in clocks]
        joined = np.concatenate(pieces, axis=1) if pieces else np.zeros((2, 0), np.int64)
        self._sequences, self._times = _rises(joined[0], joined[1])

    @property
    def last(self) -> int | None:
        return int(self._times[-1]) if len(self._times) else None

    def before(self, sequences: Numbers) -> Numbers:
        """The time just before each of these positions; far in the past where no record has arrived yet."""
        at = np.searchsorted(self._sequences, sequences, side="left") - 1
        return np.where(at >= 0, self._times[np.maximum(at, 0)] if len(self._times) else 0, -(1 << 62))


@lru_cache(64)
def plan_assigner(spec: RecordTaskSpec) -> KeyGroupAssigner:
    """The query's assigner."""
    return key_group_assigner(
        spec.plan, {layout.topic: layout.names for layout in spec.layouts if layout.names}, timed=True
    )


@lru_cache(64)
def columnar_assigner(spec: RecordTaskSpec) -> KeyGroupAssigner:
    """The assigner for records of raw topics that were decoded to columns."""
    columns = {layout.topic: [name for name, _ in layout.columns or ()] for layout in spec.layouts if layout.columnar}
    return key_group_assigner(spec.plan, columns, timed=True)
