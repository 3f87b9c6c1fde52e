"""In which forms the records of a batch travel: as their topic has them, or opened into columns where they are read.

Formats open what they can at once. What they cannot, and what the chain must see as a record (since it has headers, or
would be refused), stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from headrace.contracts import Batch
from headrace.engine.record.work import Work
from headrace.plan.opening import Mask, Opener, opener


class Form(NamedTuple):
    number: int
    """Of the layout."""
    rows: pa.RecordBatch
    keys: pa.BinaryArray | None
    """As they lie in a raw topic."""


def forms(batch: Batch, work: Work) -> Iterator[Form]:
    """All records of the batch, each in one of the forms."""
    number, opening = work.topics.index(batch.topic), _opening(work, batch.topic)
    keys = batch.rows.column("key") if work.layouts[number].columns is None else None
    if opening is None or len(batch) < work.layouts[opening[1]].fewest:
        yield Form(number, work.layouts[number].packed(batch), keys)
        return
    source, place = opening
    opened = source.opened(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
    sure = opened.sure & _plain(batch)
    if source.key_width > 1:
        sure &= opened.keyed.to_numpy(zero_copy_only=False)  # null columns would stand for a key
    if sure.any():
        chosen = _some(batch, sure)
        yield Form(place, work.layouts[place].packed_opened(chosen, opened.where(sure)), chosen.rows.column("key"))
    if not sure.all():
        others = _some(batch, ~sure)
        yield Form(number, work.layouts[number].packed(others), others.rows.column("key"))


def _plain(batch: Batch) -> Mask:
    return batch.rows.column("$headers").is_null().to_numpy(zero_copy_only=False)


def _some(batch: Batch, mask: Mask) -> Batch:
    return batch if mask.all() else replace(batch, rows=batch.rows.filter(pa.array(mask)))


@lru_cache(256)
def _opening(work: Work, topic: str) -> tuple[Opener, int] | None:
    """What opens the records of a topic, and the number of their layout then."""
    for place, layout in enumerate(work.layouts):
        if layout.opened and layout.topic == topic:
            (source,) = (source for source in work.plan.sources if source.topic == topic)
            found = opener(source)
            return None if found is None else (found, place)
    return None
