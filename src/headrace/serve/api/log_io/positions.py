"""Positions in topics as text: `orders/0:120,orders/1:17` is the next offset of each partition.

Such a text is the `next` of a page, the id of a live event, and the token that a write returns. A read with the token
sees that write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.contracts import TOPIC_NAME, Appended, Log, TopicPartition
from headrace.errors import BadPositionToken, UnknownPartition
from headrace.log.offset_spec import EARLIEST, LATEST, OffsetSpec, parse_offset_spec, resolve_offset

Positions = Mapping[TopicPartition, int]
_MOST = 1 << 63
_ONE = re.compile(rf"({TOPIC_NAME.pattern})/(\d{{1,9}}):(\d{{1,19}})")
_WORDS: Mapping[str, OffsetSpec] = {"beginning": EARLIEST, "end": LATEST}


def format_positions(positions: Positions) -> str:
    """
    >>> format_positions({TopicPartition("orders", 1): 17, TopicPartition("orders", 0): 120})
    'orders/0:120,orders/1:17'
    """
    return ",".join(f"{place}:{offset}" for place, offset in sorted(positions.items()))


def parse_positions(text: str) -> dict[TopicPartition, int]:
    """Parse the output of `format_positions`."""
    positions: dict[TopicPartition, int] = {}
    for one in text.split(",") if text else ():
        match = _ONE.fullmatch(one)
        if match is None or int(match[3]) >= _MOST:
            raise BadPositionToken(
                f'"{one[:80]}" is not a position',
                fix="use the token as the server returned it, for example orders/0:120",
            )
        positions[TopicPartition(match[1], int(match[2]))] = int(match[3])
    return positions


def positions_after(appended: Iterable[Appended]) -> dict[TopicPartition, int]:
    """The positions after appended rows."""
    return {TopicPartition(one.topic, one.partition): one.offset + one.count for one in appended}


def start_positions(log: Log, topic: str, start: str, partition: int | None = None) -> dict[TopicPartition, int]:
    """The start positions in a topic's partitions. `start` is `beginning`, `end`, a time, or positions.

    Partitions that the positions do not contain were added later and are read from their beginning.
    """
    bounds = {TopicPartition(topic, number): one for number, one in sorted(log.bounds(topic).items())}
    if partition is not None:
        bounds = {place: one for place, one in bounds.items() if place.partition == partition}
    if not bounds:
        raise UnknownPartition(
            f'topic "{topic}" has no partition {partition}', fix="GET the topic to see its partitions"
        )
    if "/" in start:
        named = parse_positions(start)
        strange = next((place for place in named if place.topic != topic), None)
        if strange is not None:
            raise BadPositionToken(
                f'"{strange}" is not a position in topic "{topic}"',
                fix="use it with the topic that it was returned for",
            )
        return {place: named.get(place, one.start) for place, one in bounds.items()}
    place = _place(start)
    return {at: resolve_offset(log, at, place, one) for at, one in bounds.items()}


def _place(start: str) -> OffsetSpec:
    try:
        return _WORDS.get(start) or parse_offset_spec(start)
    except ValueError as error:
        raise BadPositionToken(f'"{start[:80]}" is not a valid start', fix=f"beginning, end, or {error}") from None
