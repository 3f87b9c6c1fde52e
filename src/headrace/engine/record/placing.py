"""Where records go: which page each is for, and what every page must know of the others' time.

A page's rows travel as one payload. Its last byte says what it is: the number of the topic's layout, `BOTH` if there
are two payloads in it (see `forms`), or `CLOCK`. A clock is what records of this piece do to the time of the stream:
their places in the order of arrival at which it rises, and to what. Every page gets it, so that each closes its windows
at the same moment as all others.
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
from headrace.engine.batch.paging import Pages, page_of, pages_of
from headrace.engine.record.forms import Form, forms
from headrace.engine.record.spreading import numbers_of
from headrace.engine.record.work import Work
from headrace.plan.layout import Layout

CLOCK = 255
BOTH = 254
PACKED = pa.schema([("page", pa.int32()), ("payload", pa.binary())])
PACKED_SPARK = "page int, payload binary"

Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.zeros(0, np.int64)


def packed(batch: Batch, work: Work) -> pa.RecordBatch:
    """A batch of a topic as one row for each page that it concerns, and one for its clock."""
    found: defaultdict[int, list[bytes]] = defaultdict(list)
    clocks: list[bytes] = []
    for form in forms(batch, work):
        parts, clock = _parted(form, work)
        clocks += [clock] if clock else []
        for page, part in parts:
            found[page].append(part.serialize().to_pybytes() + bytes([form.number]))
    payloads = [(page, together(parts)) for page, parts in found.items()]
    payloads += [(page, clock) for clock in clocks for page in range(work.pages)]
    numbers = numbers_of(work.pages)
    columns = [
        pa.array([numbers[page] for page, _ in payloads], pa.int32()),
        pa.array([data for _, data in payloads], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)


def _parted(form: Form, work: Work) -> tuple[list[tuple[int, pa.RecordBatch]], bytes]:
    """What is for which page, and the clock."""
    layout = work.layouts[form.number]
    if work.pages == 1 or layout.topic == work.ticks:
        return [(page, form.rows) for page in range(work.pages)] if form.rows.num_rows else [], b""
    met = _met(form, layout, work)
    parts = [(int(page), form.rows.filter(pa.array(met.pages == page))) for page in np.unique(met.pages)]
    return parts, b"" if plan_pages(work).lateness is None else met.clock


def together(parts: list[bytes]) -> bytes:
    """Records of one batch that travel in two forms keep their order if they stay together."""
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return first + second + len(first).to_bytes(8, "big") + bytes([BOTH])


def apart(payload: bytes) -> list[bytes]:
    if payload[-1] != BOTH:
        return [payload]
    cut = int.from_bytes(payload[-9:-1], "big")
    return [payload[:cut], payload[cut:-9]]


@dataclass(frozen=True)
class Met:
    """On which page each record is and, of those that meet state there, their places and times."""

    pages: npt.NDArray[np.int32]
    sequences: Numbers
    times: Numbers

    @property
    def clock(self) -> bytes:
        """What they do to the time of the stream; nothing if there are none."""
        sequences, times = _risings(self.sequences, self.times)
        return np.stack([sequences, times]).tobytes() + bytes([CLOCK]) if len(times) else b""


def _met(form: Form, layout: Layout, work: Work) -> Met:
    known, table = (opened_pages if layout.opened else plan_pages)(work), pa.Table.from_batches([form.rows])
    plain, find = known.plain.get(layout.topic), known.finders.get(layout.topic)
    if plain is not None and layout.columns is not None:
        return _by_columns(table, [layout.travels_as(name) for name in plain], work.pages, nulls=known.nulls)
    if find is None:  # nothing is kept: what belongs together is what has the same key
        keys = [record.key for record in layout.records(table)] if form.keys is None else form.keys.to_pylist()
        return Met(np.array([page_of(key, work.pages) for key in keys], np.int32), _NONE, _NONE)
    found = [find(record) for record in layout.records(table)]
    pages = np.array([page_of(one and one[1], work.pages) for one in found], np.int32)
    meeting = [(i, one[0]) for i, one in enumerate(found) if one and _meets(one[1], known)]
    where = np.array([i for i, _ in meeting], np.int64)
    return Met(pages, places(table)[where], np.array([time for _, time in meeting], np.int64))


def _meets(key: Any, known: Pages) -> bool:
    """Whether a row with this key counts where it meets state; without a payload it has none."""
    return key is not None and (known.nulls or None not in key)


def _by_columns(rows: pa.Table, names: Sequence[str], pages: int, *, nulls: bool) -> Met:
    """The same page for all equal keys; each key is looked at once."""
    there = pc.fill_null(pc.invert(rows["$deleted"]), True)
    for name in () if nulls else names:
        there = pc.and_(there, pc.is_valid(rows[name]))
    meeting = there.to_numpy()
    found = _pages_of_keys(rows.select(names).combine_chunks(), pages)
    return Met(found, places(rows)[meeting], rows["time"].to_numpy()[meeting])


def _pages_of_keys(keys: pa.Table, pages: int) -> npt.NDArray[np.int32]:
    if keys.num_columns == 1:
        encoded = keys.column(0).combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = [page_of((value,), pages) for value in encoded.dictionary.to_pylist()]
        return np.array(numbers, np.int32)[encoded.indices.to_numpy(zero_copy_only=False)]
    every = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    found = {key: page_of(key, pages) for key in set(every)}
    return np.array([found[key] for key in every], np.int32)


# -- time -----------------------------------------------------------------------------------------------------------


def places(rows: pa.Table) -> Numbers:
    """Places in the order of arrival. On Kafka there are none: a batch is ordered by time, so none is late in it."""
    return pc.fill_null(rows["sequence"], 0).to_numpy()


def _risings(sequences: Numbers, times: Numbers) -> tuple[Numbers, Numbers]:
    """Only where the latest time so far rises."""
    order = np.argsort(sequences, kind="stable")
    sequences, times = sequences[order], np.maximum.accumulate(times[order]) if len(times) else times
    rises = np.concatenate([[True], times[1:] > times[:-1]]) if len(times) else np.zeros(0, bool)
    return sequences[rises], times[rises]


class StreamTime:
    """What time it was for the whole stream, at every place of a batch."""

    def __init__(self, clocks: Sequence[bytes]) -> None:
        pieces = [np.frombuffer(data[:-1], np.int64).reshape(2, -1) for data in clocks]
        joined = np.concatenate(pieces, axis=1) if pieces else np.zeros((2, 0), np.int64)
        self._sequences, self._times = _risings(joined[0], joined[1])

    @property
    def last(self) -> int | None:
        return int(self._times[-1]) if len(self._times) else None

    def before(self, sequences: Numbers) -> Numbers:
        """Just before each of these places; long ago where nothing has come yet."""
        at = np.searchsorted(self._sequences, sequences, side="left") - 1
        return np.where(at >= 0, self._times[np.maximum(at, 0)] if len(self._times) else 0, -(1 << 62))


@lru_cache(64)
def plan_pages(work: Work) -> Pages:
    """How the query is parted."""
    return pages_of(work.plan, {layout.topic: layout.names for layout in work.layouts if layout.names}, timed=True)


@lru_cache(64)
def opened_pages(work: Work) -> Pages:
    """The same for records of raw topics that were opened."""
    columns = {layout.topic: [name for name, _ in layout.columns or ()] for layout in work.layouts if layout.opened}
    return pages_of(work.plan, columns, timed=True)
