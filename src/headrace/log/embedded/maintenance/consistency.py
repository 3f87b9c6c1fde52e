"""Consistency of the commit log: extents are contiguous, and partitions, groups and checksums match them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from headrace.log.embedded.maintenance.rewrite import COMPACTED, IMPLICIT
from headrace.log.embedded.storage.extents import ARCHIVE
from headrace.log.topic_spec import parse_spec


class Inconsistency(NamedTuple):
    kind: str
    what: str
    where: str


class _PartitionRange(NamedTuple):
    """A partition as its row describes it."""

    topic: str
    partition: int
    start: int
    end: int
    last_sequence: int
    bytes: int
    compact: bool

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class _Extent(NamedTuple):
    base: int
    last: int
    base_sequence: int
    last_sequence: int
    rows: int
    bytes: int
    kind: str
    merged: int


def find_inconsistencies(log: sqlite3.Connection, groups: dict[tuple[str, int, int], int]) -> Iterator[Inconsistency]:
    """All inconsistencies; `groups` maps (group, topic id, partition) to committed offsets that were read before."""
    log.execute("BEGIN")
    try:
        places = _places(log)
        yield from _without_partition(log, places)
        for key, place in places.items():
            yield from _partition(place, _extents(log, key))
        yield from _sequences(log, places)
        yield from _groups(groups, places)
    finally:
        log.execute("ROLLBACK")


def _places(log: sqlite3.Connection) -> dict[tuple[int, int], _PartitionRange]:
    rows = log.execute(
        "SELECT t.id, p.partition, t.name, p.start_offset, p.end_offset, p.last_sequence, p.bytes, t.spec "
        "FROM partitions p JOIN topics t ON t.id = p.topic ORDER BY t.name, p.partition"
    )
    return {
        (topic_id, partition): _PartitionRange(name, partition, start, end, last, size, parse_spec(spec).compact)
        for topic_id, partition, name, start, end, last, size, spec in rows
    }


def _extents(log: sqlite3.Connection, key: tuple[int, int]) -> list[_Extent]:
    rows = log.execute(
        "SELECT base_offset, last_offset, base_sequence, last_sequence, rows, bytes, kind, merged FROM extents "
        "WHERE topic = ? AND partition = ? AND replaced_at IS NULL ORDER BY base_offset, last_offset",
        key,
    )
    return [_Extent(*row) for row in rows]


def _without_partition(
    log: sqlite3.Connection, places: dict[tuple[int, int], _PartitionRange]
) -> Iterator[Inconsistency]:
    for key in log.execute("SELECT DISTINCT topic, partition FROM extents WHERE replaced_at IS NULL"):
        if key not in places:
            yield Inconsistency(
                "partition", "rows belong to a partition that does not exist", f"topic id {key[0]}/{key[1]}"
            )


def _partition(place: _PartitionRange, extents: list[_Extent]) -> Iterator[Inconsistency]:
    may_have_gaps = place.compact or any(extent.merged == COMPACTED for extent in extents)
    if place.start > place.end:
        yield Inconsistency("offsets", f"the partition begins at {place.start} and ends at {place.end}", str(place))
    for extent in extents:
        yield from _extent(place, extent)
    for one, other in itertools.pairwise(extents):
        yield from _adjacent(place, one, other, may_have_gaps)
    if not may_have_gaps:
        yield from _ends(place, extents)
    extent_bytes = sum(extent.bytes for extent in extents if extent.kind != ARCHIVE)
    if extent_bytes != place.bytes:
        yield Inconsistency(
            "size", f"the partition counts {place.bytes} bytes, its extents have {extent_bytes}", str(place)
        )


def _extent(place: _PartitionRange, extent: _Extent) -> Iterator[Inconsistency]:
    where = f"{place}, offsets {extent.base} to {extent.last}"
    span, sequences = extent.last - extent.base + 1, extent.last_sequence - extent.base_sequence + 1
    counted = extent.rows if extent.merged == IMPLICIT else min(extent.rows, span, sequences)
    if extent.rows < 1 or counted != extent.rows or (extent.merged == IMPLICIT and (span, sequences) != (counted,) * 2):
        yield Inconsistency("count", f"{extent.rows} rows stand for {span} offsets and {sequences} sequences", where)
    if extent.last >= place.end:
        yield Inconsistency("offsets", f"rows lie after the partition's end, {place.end}", where)
    if extent.last_sequence > place.last_sequence:
        yield Inconsistency("sequences", f"rows lie after the partition's last sequence, {place.last_sequence}", where)


def _adjacent(place: _PartitionRange, one: _Extent, other: _Extent, may_have_gaps: bool) -> Iterator[Inconsistency]:
    where = f"{place}, offsets {one.last} to {other.base}"
    if other.base <= one.last:
        yield Inconsistency(
            "offsets", f"two extents overlap: one ends at {one.last}, one begins at {other.base}", where
        )
    elif other.base > one.last + 1 and not may_have_gaps:
        yield Inconsistency("offsets", f"offsets {one.last + 1} to {other.base - 1} are missing", where)
    if other.base_sequence <= one.last_sequence:
        yield Inconsistency("sequences", f"sequence {other.base_sequence} comes after {one.last_sequence}", where)


def _ends(place: _PartitionRange, extents: list[_Extent]) -> Iterator[Inconsistency]:
    first = extents[0].base if extents else place.end
    last = extents[-1].last if extents else place.start - 1
    if first > place.start:
        yield Inconsistency("offsets", f"offsets {place.start} to {first - 1} are missing", str(place))
    if extents and last < place.end - 1:
        yield Inconsistency("offsets", f"offsets {last + 1} to {place.end - 1} are missing", str(place))


def _sequences(log: sqlite3.Connection, places: dict[tuple[int, int], _PartitionRange]) -> Iterator[Inconsistency]:
    """Extents with consecutive sequences must not overlap. (Merged extents interleave with others.)"""
    ((last_sequence,),) = log.execute("SELECT value FROM meta WHERE name = 'sequence'")
    rows = log.execute(
        "SELECT base_sequence, last_sequence, topic, partition FROM extents "
        f"WHERE replaced_at IS NULL AND merged = {IMPLICIT} ORDER BY base_sequence"
    )
    before = 0
    for base, last, *key in rows:
        place = places.get((key[0], key[1]), f"topic id {key[0]}/{key[1]}")
        if base <= before:
            yield Inconsistency("sequences", f"sequences {base} to {min(before, last)} are used twice", str(place))
        if last > last_sequence:
            yield Inconsistency("sequences", f"sequence {last} is beyond the log's last, {last_sequence}", str(place))
        before = max(before, last)


def _groups(
    groups: dict[tuple[str, int, int], int], places: dict[tuple[int, int], _PartitionRange]
) -> Iterator[Inconsistency]:
    for (group, topic_id, partition), offset in groups.items():
        place = places.get((topic_id, partition))
        if place is not None and offset > place.end:
            what = f'group "{group}" has committed offset {offset}, after the partition\'s end, {place.end}'
            yield Inconsistency("group", what, str(place))
