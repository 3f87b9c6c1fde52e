"""Places in a partition as people say them: earliest, latest, an offset, a time, or "ten minutes ago"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.clock import SystemClock, millis
from headrace.contracts import Bounds, Log, TopicPartition
from headrace.errors import OffsetOutOfRange
from headrace.settings import parse_duration


@dataclass(frozen=True)
class Place:
    """Exactly one of the three is set."""

    end: str | None = None  # earliest or latest
    offset: int | None = None
    at: int | None = None


EARLIEST, LATEST = Place(end="earliest"), Place(end="latest")


def parse(text: str) -> Place:
    """Raises ValueError."""
    if text in ("earliest", "latest"):
        return Place(end=text)
    if re.fullmatch(r"\d+", text):
        return Place(offset=int(text))
    if text.startswith("-"):
        return Place(at=SystemClock().now() - millis(parse_duration(text[1:])))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError('write earliest, latest, an offset, a time like 2026-01-31T12:00, or "-10m"') from None
    return Place(at=int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def find(log: Log, partition: TopicPartition, place: Place, bounds: Bounds) -> int:
    """The offset that the place is in a partition with those bounds."""
    if place.at is not None:
        return log.offset_at(*partition, place.at)
    if place.offset is None:
        return bounds.start if place == EARLIEST else bounds.end
    if place.offset > bounds.end:
        raise OffsetOutOfRange(
            f"offset {place.offset} lies behind the end of the partition, {bounds.end}",
            where=str(partition),
            fix="name one partition, or a time",
        )
    return place.offset
