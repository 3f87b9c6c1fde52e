"""Records: a value in bytes with a key, headers and timestamps.

Device clocks are often wrong. A record may therefore carry three times: when the event occurred and when it was sent,
both by the device's clock, and when it was received, by the server's clock. The difference between the last two is the
device's clock error (plus a short transfer time), so by the server's clock the event occurred at
`occurred_at + (received_at - sent_at)`.
"""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record to append. Times are milliseconds since 1970 (UTC); the log fills in missing ones."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    occurred_at: int | None = None
    sent_at: int | None = None
    received_at: int | None = None

    def header(self, name: str) -> bytes | None:
        """The last header of that name, or None."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its position in the log. `sequence` is None on a log without a total order (Kafka)."""

    topic: str
    partition: int
    offset: int
    sequence: int | None
    timestamp: int
    record: Record

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def headers(self) -> Headers:
        return self.record.headers


def event_time(occurred_at: int | None, sent_at: int | None, received_at: int) -> int:
    """The time of an event by the server's clock, corrected for the device's clock error if the record has the times.

    >>> event_time(occurred_at=1_000, sent_at=1_500, received_at=61_500)  # the device runs a minute late
    61000
    """
    if occurred_at is None:
        return received_at
    if sent_at is None:
        return occurred_at
    return occurred_at + (received_at - sent_at)
