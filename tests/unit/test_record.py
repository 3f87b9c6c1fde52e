"""Records and their times."""

from __future__ import annotations

import doctest

import pytest

import headrace.record
from headrace.record import Record, StoredRecord, event_time


def test_docstring_examples_run() -> None:
    assert doctest.testmod(headrace.record).failed == 0


@pytest.mark.parametrize(
    ("occurred", "sent", "received", "expected"),
    [
        (None, None, 100, 100),
        (None, 50, 100, 100),
        (70, None, 100, 70),
        (70, 80, 100, 90),
        (170, 180, 100, 90),
        (-5, -5, 0, 0),
    ],
)
def test_event_time_is_computed_from_the_device_times(
    occurred: int | None, sent: int | None, received: int, expected: int
) -> None:
    assert event_time(occurred, sent, received) == expected


def test_the_last_header_of_a_name_counts() -> None:
    record = Record(b"v", headers=(("a", b"1"), ("b", b"2"), ("a", b"3")))
    assert (record.header("a"), record.header("b"), record.header("c")) == (b"3", b"2", None)


def test_a_stored_record_shows_its_record() -> None:
    stored = StoredRecord("t", 0, 1, 2, 3, Record(b"v", b"k", (("a", b"1"),)))
    assert (stored.key, stored.value, stored.headers) == (b"k", b"v", (("a", b"1"),))
