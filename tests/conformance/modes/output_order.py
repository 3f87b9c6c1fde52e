"""What order a topic's records have that streaming queries wrote, and how they differ from those of one chain.

Pages work side by side, and so do tasks that read partitions: only what went through one of them has an order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from headrace.plan.analysis.partitioning import StateScope, key_group_assigner, partitioning_of
from headrace.plan.analysis.state_shape import state_shape
from headrace.plan.nodes import Query

Row = tuple[bytes | None, bytes | None, int, tuple[tuple[str, Any], ...]]
"""Key, value, time and headers."""


class Order(StrEnum):
    """How far records have an order."""

    WHOLE = "in order"
    KEY = "in order for each key"
    NONE = "in any order"


def order_of(writers: Sequence[Query], key_groups: int, partitions: int) -> Order:
    """The order of a topic that these queries write."""
    if len(writers) > 1:
        return Order.NONE
    (query,) = writers
    if not state_shape(query) and len(query.sources) == 1:
        return Order.WHOLE if partitions == 1 else Order.NONE
    if key_groups == 1 or not key_group_assigner(query, timed=True).are_several:
        return Order.WHOLE
    return Order.KEY if partitioning_of(query.sink).state is StateScope.KEYED else Order.NONE


def difference(found: Sequence[Row], wanted: Sequence[Row], order: Order) -> str | None:
    """What is not the same, in words; None if nothing is."""
    if list(found) == list(wanted):
        return None
    if Counter(found) != Counter(wanted):
        missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
        return f"{len(found)} records, in memory {len(wanted)}: missing {_shown(missing)}, too many {_shown(more)}"
    if order is Order.NONE or (order is Order.KEY and _by_key(found) == _by_key(wanted)):
        return None
    return f"the same records, but not {order}: {[row[:3] for row in found]}, in memory {[row[:3] for row in wanted]}"


def _by_key(rows: Iterable[Row]) -> dict[bytes | None, list[Row]]:
    found: defaultdict[bytes | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return dict(found)


def _shown(rows: Counter[Row], most: int = 4) -> list[Any]:
    return [(*row[:3], *([row[3]] if row[3] else [])) for row in list(rows.elements())[:most]]
