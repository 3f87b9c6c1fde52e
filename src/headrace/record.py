"""What travels: a record is bytes with a key, headers and the times at which it was seen.

Devices have clocks of their own, and these are wrong. A record may therefore carry three times: when the event
occurred and when it was sent, both by the device's clock, and when we received it, by ours. The difference between
the last two is the device's error (plus a short transfer), so the event really occurred at
`occurred_at + (received_at - sent_at)`, by our clock.
"""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One event on its way in. Times are milliseconds since 1970 (UTC); the log fills in what is missing."""

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
    """A record with its place in the log. `sequence` is None where the log has no total order (Kafka)."""

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
    """The time of an event by our clock, corrected for the device's where it told us enough.

    >>> event_time(occurred_at=1_000, sent_at=1_500, received_at=61_500)  # the device runs a minute late
    61000
    """
    if occurred_at is None:
        return received_at
    if sent_at is None:
        return occurred_at
    return occurred_at + (received_at - sent_at)
