"""Positions in topics as one text: `orders/0:120,orders/1:17` says the next offset of each partition.

It is what a page gives to read on from, the id of a live event, and the token that a write answers with: who asks for
what lies before it sees the write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.contracts import TOPIC_NAME, Appended, Log, TopicPartition
from headrace.errors import BadToken, UnknownPartition
from headrace.log.places import EARLIEST, LATEST, Place, find, parse

Positions = Mapping[TopicPartition, int]
_MOST = 1 << 63
_ONE = re.compile(rf"({TOPIC_NAME.pattern})/(\d{{1,9}}):(\d{{1,19}})")
_WORDS: Mapping[str, Place] = {"beginning": EARLIEST, "end": LATEST}


def position_text(positions: Positions) -> str:
    """
    >>> position_text({TopicPartition("orders", 1): 17, TopicPartition("orders", 0): 120})
    'orders/0:120,orders/1:17'
    """
    return ",".join(f"{place}:{offset}" for place, offset in sorted(positions.items()))


def positions_of(text: str) -> dict[TopicPartition, int]:
    """What `position_text` gave."""
    found: dict[TopicPartition, int] = {}
    for one in text.split(",") if text else ():
        match = _ONE.fullmatch(one)
        if match is None or int(match[3]) >= _MOST:
            raise BadToken(f'"{one[:80]}" is no position', fix="write it as it was given, like orders/0:120")
        found[TopicPartition(match[1], int(match[2]))] = int(match[3])
    return found


def behind(appended: Iterable[Appended]) -> dict[TopicPartition, int]:
    """The positions behind rows that were appended."""
    return {TopicPartition(one.topic, one.partition): one.offset + one.count for one in appended}


def starts(log: Log, topic: str, start: str, partition: int | None = None) -> dict[TopicPartition, int]:
    """Where to begin in a topic's partitions. `start` is `beginning`, `end`, a time, or positions.

    Partitions that positions do not name, since they came later, are read from their beginning.
    """
    bounds = {TopicPartition(topic, number): one for number, one in sorted(log.bounds(topic).items())}
    if partition is not None:
        bounds = {place: one for place, one in bounds.items() if place.partition == partition}
    if not bounds:
        raise UnknownPartition(f'topic "{topic}" has no partition {partition}', fix="GET its topic to see which it has")
    if "/" in start:
        named = positions_of(start)
        strange = next((place for place in named if place.topic != topic), None)
        if strange is not None:
            raise BadToken(f'"{strange}" is not of topic "{topic}"', fix="use it where it was given")
        return {place: named.get(place, one.start) for place, one in bounds.items()}
    place = _place(start)
    return {at: find(log, at, place, one) for at, one in bounds.items()}


def _place(start: str) -> Place:
    try:
        return _WORDS.get(start) or parse(start)
    except ValueError as error:
        raise BadToken(f'"{start[:80]}" is no place to begin', fix=f"beginning, end, or {error}") from None
