"""Offset specifications: earliest, latest, an offset, a time, or "ten minutes ago"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.clock import SystemClock, millis
from headrace.contracts import Bounds, Log, TopicPartition
from headrace.errors import OffsetOutOfRange
from headrace.settings import parse_duration


@dataclass(frozen=True)
class OffsetSpec:
    """Exactly one of the three is set."""

    end: str | None = None  # earliest or latest
    offset: int | None = None
    at: int | None = None


EARLIEST, LATEST = OffsetSpec(end="earliest"), OffsetSpec(end="latest")


def parse_offset_spec(text: str) -> OffsetSpec:
    """Raises ValueError."""
    if text in ("earliest", "latest"):
        return OffsetSpec(end=text)
    if re.fullmatch(r"\d+", text):
        return OffsetSpec(offset=int(text))
    if text.startswith("-"):
        return OffsetSpec(at=SystemClock().now() - millis(parse_duration(text[1:])))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError('write earliest, latest, an offset, a time like 2026-01-31T12:00, or "-10m"') from None
    return OffsetSpec(at=int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def resolve_offset(log: Log, partition: TopicPartition, place: OffsetSpec, bounds: Bounds) -> int:
    """Resolves the specification to an offset in a partition with those bounds."""
    if place.at is not None:
        return log.offset_at(*partition, place.at)
    if place.offset is None:
        return bounds.start if place == EARLIEST else bounds.end
    if place.offset > bounds.end:
        raise OffsetOutOfRange(
            f"offset {place.offset} lies after the end of the partition, {bounds.end}",
            where=str(partition),
            fix="use an offset of that partition, or a time",
        )
    return place.offset
