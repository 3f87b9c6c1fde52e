"""Raw records become the rows that `prepare_rows` makes of them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.commit import raw_records
from headrace.log.embedded.storage.extents import ExtentEncoder
from headrace.log.stored_rows import prepare_rows
from headrace.record import Record

_BYTES = st.none() | st.binary(max_size=5)
_TIME = st.none() | st.integers(0, 1 << 40)
_HEADERS = st.lists(st.tuples(st.text(max_size=2), st.binary(max_size=2)), max_size=2).map(tuple)
_PLAIN = st.builds(Record, _BYTES, _BYTES)
_ANY = st.builds(Record, _BYTES, _BYTES, _HEADERS, _TIME, _TIME, _TIME)


@given(st.lists(_PLAIN, min_size=1, max_size=20) | st.lists(_ANY, min_size=1, max_size=4))
def test_rows_are_those_of_prepare_rows(records: list[Record]) -> None:
    rows = raw_records.raw_rows(records, 7)
    rows.validate(full=True)
    expected = prepare_rows(records, Topic("t", TopicSpec(), 0), 7)
    assert rows.equals(expected)
    assert rows.schema.equals(expected.schema, check_metadata=True)


@given(st.lists(_PLAIN, min_size=1, max_size=3), st.lists(_ANY, max_size=2))
def test_an_extent_has_the_time_range_of_its_rows(plain: list[Record], others: list[Record]) -> None:
    records = plain + others
    encoder = ExtentEncoder(Path(), "owner", 1 << 20)
    assert raw_records.stage_records(records, encoder, 7) == encoder.stage(
        prepare_rows(records, Topic("t", TopicSpec(), 0), 7)
    )
